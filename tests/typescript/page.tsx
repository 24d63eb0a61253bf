// A page in React that shows the example of docs/widget.md under an answer.
import { Rating } from "./rating";

const getToken = async ({ fresh }: { fresh: boolean }) => (fresh ? "renewed" : "kept");

export function Answer({ id }: { id: string }) {
  return (
    <article>
      <Rating answer={id} conversation="c1" getToken={getToken} onState={(detail) => console.info(detail.state)} />
    </article>
  );
}

// Each of these is a mistake that the types have to find.
export const mistakes = [
  // @ts-expect-error an element without its relay
  <specialist-feedback answer="a1" getToken={getToken} />,
  // @ts-expect-error a token is asked for by a function
  <specialist-feedback relay="https://relay.example.org" answer="a1" getToken="token" />,
];
