// usage: node content-length-child.mjs SERVER.js [ARG]…
//
// A real server whose answers come in Content-Length frames, after a line of log noise, the header apart from
// the body. With TAP in its environment it writes down both directions, so that a test can see what a child saw.

import { spawn } from 'node:child_process';
import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const tap = (mark, line) => process.env.TAP && appendFileSync(process.env.TAP, `${mark} ${line}\n`);
const server = spawn(process.execPath, process.argv.slice(2), { stdio: ['pipe', 'pipe', 'inherit'] });

createInterface({ input: process.stdin })
    .on('line', line => {
        tap('>', line);
        server.stdin.write(line + '\n');
    })
    .on('close', () => server.stdin.end());

process.stdout.write('framed: this line is noise\n');
createInterface({ input: server.stdout }).on('line', line => {
    tap('<', line);
    process.stdout.write(`Content-Length: ${Buffer.byteLength(line)}\r\n\r\n`);
    process.stdout.write(line);
});
server.on('exit', code => (process.exitCode = code ?? 1));
