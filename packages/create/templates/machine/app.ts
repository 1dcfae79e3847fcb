// An order goes through three steps. What a step returns is stored, and that step never runs again, whatever happens to its pod. A step that
// was interrupted runs again from its beginning: pass `key` to services that must not do the same thing twice.
import { setTimeout as sleep } from 'node:timers/promises'
import { machine } from 'fleetline'
import { z } from 'zod'

const Order = z.object({ number: z.string(), cents: z.int().positive() })

export const order = machine('order', { input: Order, output: z.object({ parcel: z.string() }) })
  .to(
    'charge',
    async ({ input, key, signal }) => {
      await sleep(2_000, undefined, { signal }) // stands in for the call of a payment provider
      return { receipt: `${key}/${input.cents}` }
    },
    { attempts: 5, timeout: '30s' },
  )
  .to('pack', async ({ input, signal }) => {
    await sleep(2_000, undefined, { signal })
    return { parcel: `parcel-${input.number}` }
  })
  .to('ship', async ({ signal }) => {
    await sleep(2_000, undefined, { signal })
  })
  .end(({ out }) => ({ parcel: out.pack.parcel }))
