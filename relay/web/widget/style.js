/**
 * How the widget looks. Colours follow the `color-scheme` of where it stands; `--feedback-…` properties and parts are
 * for the page to set. No animation says anything that the words do not.
 */
export const STYLE = `
:host { display: block; font-size: 0.875em; line-height: 1.5;
  --accent: var(--feedback-accent, light-dark(#05c, #8bf)); --on: var(--feedback-on-accent, light-dark(#fff, #111)); }
:host([hidden]), [hidden] { display: none !important; }
p, blockquote, fieldset { margin: 0; padding: 0; border: 0; }
[role=group] + [role=group] { margin-block-start: 0.75em; }
[role=group], form, fieldset, .row { display: flex; flex-wrap: wrap; align-items: center; gap: 0.5em; }
form, .wide { flex-basis: 100%; }
form { flex-direction: column; align-items: stretch; }
label { display: grid; gap: 0.5em; }
.row { flex-wrap: nowrap; }
.wide { white-space: pre-wrap; overflow-wrap: anywhere; }
bdi { font-weight: 600; }
button, textarea { font: inherit; color: inherit; background: transparent; border: 1px solid; padding: 0.3em 0.6em;
  border-radius: var(--feedback-radius, 0.5em); flex: none; }
[aria-pressed=true], [type=submit] { background: var(--accent); color: var(--on); }
[aria-disabled=true] { border-style: dashed; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
svg { inline-size: 1.2em; vertical-align: middle; fill: none; stroke: currentColor; stroke-width: 2; }
[part=down] svg { rotate: 180deg; }
[part~=sending] .icon { animation: turn 1.5s linear infinite; }
@keyframes turn { to { rotate: 360deg; } }
@media (prefers-reduced-motion: reduce) { .icon { animation: none !important; } }
.said { position: absolute; inline-size: 1px; block-size: 1px; overflow: hidden; clip-path: inset(50%); }
`;
