// Becomes one of the four programs. The package of this platform has them; npm installed it as an optional dependency.
'use strict';

const { spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const PROGRAMS = ['switchboard-guard', 'switchboard-ctl', 'switchboard', 'switchboardd'];
const PLATFORMS = ['linux-x64', 'linux-arm64', 'darwin-x64', 'darwin-arm64'];

function fail(message) {
    process.stderr.write(`switchboard: ${message}\n`);
    process.exit(1);
}

/** The folder of the programs. */
function folder() {
    const platform = `${process.platform}-${process.arch}`;
    if (process.platform === 'win32') {
        fail('native Windows is not supported; install Switchboard inside WSL, where it works as on Linux');
    }
    if (!PLATFORMS.includes(platform)) {
        fail(`there are no programs for ${platform}; \`cargo install\` builds them from source`);
    }
    const name = `@switchboard-mcp/switchboard-${platform}`;
    try {
        return path.join(path.dirname(require.resolve(`${name}/package.json`)), 'bin');
    } catch {
        fail(`the package ${name} is missing: npm was told to leave out optional dependencies; install it, too`);
    }
}

/** Whether the folder may be deleted at any time: a cache of npx, `pnpm dlx`, bunx or `yarn dlx`. */
function isCache(bin) {
    const isOne = part => part === '_npx' || part === 'dlx' || /^(dlx|bunx|xfs)-/.test(part);
    return bin.split(path.sep).some(isOne);
}

/** Copies the programs to ~/.local/bin, the daemon last: one that runs takes over when its own program is replaced. */
function copyPrograms(bin) {
    const to = process.env.SWITCHBOARD_INSTALL_DIR || path.join(os.homedir(), '.local', 'bin');
    fs.mkdirSync(to, { recursive: true });
    for (const program of PROGRAMS) {
        const part = path.join(to, `.${program}.${process.pid}`);
        fs.copyFileSync(path.join(bin, program), part);
        fs.chmodSync(part, 0o755);
        fs.renameSync(part, path.join(to, program));
    }
    process.stderr.write(`switchboard: the four programs are in ${to}\n`);
    return to;
}

/** Replaces this process where Node can; else stays as a parent that passes on signals and the status. */
function become(program, args) {
    if (typeof process.execve === 'function') {
        process.removeAllListeners('warning');
        process.on('warning', () => {});
        // A descriptor that Node made non-blocking would stay so for the program.
        process.execve(program, [program, ...args], process.env);
    }
    const child = spawn(program, args, { stdio: 'inherit' });
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2']) {
        process.on(signal, () => child.kill(signal));
    }
    child.on('error', error => fail(`${program}: ${error.message}`));
    child.on('exit', (code, signal) => {
        if (signal) {
            process.removeAllListeners(signal);
            process.kill(process.pid, signal);
        } else {
            process.exit(code);
        }
    });
}

module.exports = name => {
    let bin = folder();
    const args = process.argv.slice(2);
    if (name === 'switchboard' && args[0] === 'install-programs') {
        copyPrograms(bin);
        return;
    }
    // These write the path of a program into files that outlive npm's cache.
    if (name === 'switchboard' && ['setup', 'service'].includes(args[0]) && isCache(bin)) {
        bin = copyPrograms(bin);
        process.exit(spawnSync(path.join(bin, name), args, { stdio: 'inherit' }).status ?? 1);
    }
    become(path.join(bin, name), args);
};
