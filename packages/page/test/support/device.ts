// Types, clicks and reads on a device of the page, as a person does.
import type { Page } from 'playwright-core'

export type OnDevice = {
  /** Types the text and presses Enter. */
  say(text: string): Promise<void>
  press(chip: string): Promise<void>
  /** Resolves to the shown messages in order. A reply is one entry, with its parts joined. */
  read(): Promise<string[]>
}

export function onDevice(page: Page, name: 'laptop' | 'phone'): OnDevice {
  const at = page.locator(`.device[aria-label="Ada's ${name}"]`)
  const box = page.getByLabel(`Message from Ada's ${name}`)
  return {
    say: async (text) => {
      await box.pressSequentially(text, { delay: 20 })
      await box.press('Enter')
    },
    press: (chip) => at.locator('.chips').getByText(chip, { exact: true }).click(),
    read: () =>
      at
        .locator('.log > :is(.user, .reply)')
        .evaluateAll((rows) =>
          rows.map((row) =>
            Array.from(row.querySelectorAll('.said, .text'), (part) => (part as HTMLElement).innerText).join(
              '\n',
            ),
          ),
        ),
  }
}
