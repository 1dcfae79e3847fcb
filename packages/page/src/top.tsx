// The top of the page: its name, how many messages the log has acknowledged, lost and doubled, and the switch for chaos, which
// kills pods to try to lose or double some.
import type { Scene, Score } from '../../server/src/cli/dev/page/wire.ts'
import type { Known, Stage } from './scene.ts'

export function Top({ known: { scene, isHere }, stage }: { readonly known: Known; readonly stage: Stage }) {
  return (
    <header class="top">
      <h1 class="brand">
        <svg
          viewBox="0 0 24 24"
          fill="none"
          stroke="currentColor"
          stroke-width="2.4"
          stroke-linecap="round"
          aria-hidden="true"
        >
          <path d="M3 7h18M3 12h12M3 17h7" />
          <circle cx="19" cy="12" r="1.6" fill="currentColor" stroke="none" />
          <circle cx="14" cy="17" r="1.6" fill="currentColor" stroke="none" />
        </svg>
        Fleetline <small>dev fleet{scene ? ` · ${scene.postgres}` : ''}</small>
      </h1>
      {!isHere && (
        <p class="gone" role="alert">
          The dev fleet does not answer: is <code>fleetline dev</code> still running?
        </p>
      )}
      {scene && (
        <>
          <Tally score={scene.score} />
          <Chaos scene={scene} stage={stage} />
        </>
      )}
    </header>
  )
}

function Tally({ score }: { readonly score: Score | null }) {
  return (
    <div class="score" title="read from the log of this session, once a second">
      <div>
        <b>{score ? score.acked.toLocaleString('en') : '–'}</b> acked
      </div>
      {(['lost', 'doubled'] as const).map((name) => (
        <div key={name} class={score ? (score[name] === 0 ? 'zero' : 'some') : ''}>
          <b>{score ? score[name] : '–'}</b> {name}
        </div>
      ))}
    </div>
  )
}

function Chaos({ scene: { isChaos, chaosMs }, stage }: { readonly scene: Scene; readonly stage: Stage }) {
  return (
    <button class="chaos" role="switch" aria-checked={isChaos} onClick={() => stage.setChaos(!isChaos)}>
      Chaos <span>a pod dies every {chaosMs / 1_000} s</span>
      <i class="switch" />
    </button>
  )
}
