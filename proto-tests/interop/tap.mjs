// What the framed child saw and said, as its adapter wrote it down.

import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { places } from './children.mjs';

/** Messages to (`>`) and from (`<`) the framed child, oldest first. */
export function tapped(home) {
    const { tap } = places(home);
    if (!existsSync(tap)) return [];
    const lines = readFileSync(tap, 'utf8').split('\n').slice(0, -1);
    return lines.map(line => ({ to: line[0] === '>', ...JSON.parse(line.slice(2)) }));
}

/** The id under which a call with this duration reached the child. Durations tell the tests' calls apart. */
export const callId = (messages, duration) =>
    messages.find(({ to, params }) => to && params?.arguments?.duration === duration)?.id;

/** The `notifications/cancelled` that the child got for a call. */
export const cancelled = (messages, duration) =>
    messages.find(({ to, method, params }) =>
        to && method === 'notifications/cancelled' && params.requestId === callId(messages, duration));

/** Waits for something to become true of the tap. The limit is for a run that has failed. */
export async function until(home, what, look) {
    for (const end = Date.now() + 5_000; Date.now() < end; await pause(10)) {
        const found = look(tapped(home));
        if (found !== undefined && found !== false) return found;
    }
    throw new Error(`the framed child did not see within 5 s: ${what}`);
}
