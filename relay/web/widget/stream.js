/**
 * The relay's server-sent events, read with `fetch`: an `EventSource` cannot send a token.
 */
import { Trouble } from "./relay.js";

/** The relay sends something every 15 seconds; a connection that is silent for longer than this is dead. */
const SILENCE = 40_000;

/**
 * Follow the stream until it ends or breaks, telling each event as `{id, event, data}`. Its first block has an id alone:
 * it says that the stream is open.
 */
export async function follow(relay, last, signal, tell) {
  const quiet = new AbortController();
  let timer;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => quiet.abort(), SILENCE);
  };
  heard();
  try {
    const headers = { Accept: "text/event-stream", ...(last && { "Last-Event-ID": last }) };
    const { response } = await relay.ask("/api/feedback/events", { headers, signal: AbortSignal.any([signal, quiet.signal]) });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ; ) {
      const { value, done } = await reader.read();
      if (done) return;
      heard();
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      blocks.map(block).forEach(tell);
    }
  } catch (error) {
    throw error instanceof Trouble ? error : new Trouble("unreachable");
  } finally {
    clearTimeout(timer);
    quiet.abort();
  }
}

function block(text) {
  const fields = { data: "" };
  for (const line of text.split("\n")) {
    const [, name, value] = /^(\w+): ?(.*)$/.exec(line) ?? [];
    if (name) fields[name] = name === "data" ? fields.data + value : value;
  }
  return fields;
}
