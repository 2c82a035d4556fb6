// What each real child is asked and what it must answer, whichever way the question travels. The expected
// results are whole: a field that got lost or changed on the way fails the check.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { places } from './children.mjs';

const text = text => ({ content: [{ type: 'text', text }] });
const structured = (text_, structuredContent) => ({ ...text(text_), structuredContent });
const pretty = value => structured(JSON.stringify(value, null, 2), value);

/** `way` names what this run leaves behind, so that several ways can share one home. */
export function checks(way, home) {
    const { files, repo } = places(home);
    const file = join(files, `${way}.txt`);
    const poem = 'Zażółć gęślą jaźń\n\u{1F9D1}\u200D\u{1F680} "quoted" \\ \u2028 end\n';
    const entity = { name: `${way} host`, entityType: 'host', observations: ['speaks MCP', 'naïve'] };
    const weather = { temperature: 36, conditions: 'Light rain / drizzle', humidity: 82 };
    return [
        ['everything', 'echo', { message: poem }, text(`Echo: ${poem}`)],
        ['everything', 'get-sum', { a: 2, b: 40.5 }, text('The sum of 2 and 40.5 is 42.5.')],
        ['everything', 'get-structured-content', { location: 'Chicago' }, structured(JSON.stringify(weather), weather)],
        ['everything', 'get-env', {}, result => sees(JSON.parse(result.content[0].text), home)],
        ['framed', 'echo', { message: poem }, text(`Echo: ${poem}`)],
        ['framed', 'get-tiny-image', {}, result => assert.equal(result.content[1].mimeType, 'image/png')],
        ['filesystem', 'write_file', { path: file, content: poem }, structured(...twice(`Successfully wrote to ${file}`))],
        ['filesystem', 'read_text_file', { path: file }, structured(...twice(poem))],
        [
            'filesystem',
            'list_directory',
            { path: files },
            result => assert.ok(result.content[0].text.split('\n').includes(`[FILE] ${way}.txt`), result.content[0].text),
        ],
        [
            'filesystem',
            'read_text_file',
            { path: '/etc/hosts' },
            result => {
                assert.equal(result.isError, true);
                assert.match(result.content[0].text, /^Access denied - path outside allowed directories/);
            },
        ],
        ['memory', 'create_entities', { entities: [entity] }, { ...pretty([entity]), structuredContent: { entities: [entity] } }],
        [
            'memory',
            'read_graph',
            {},
            ({ content, structuredContent }) => {
                assert.deepEqual(JSON.parse(content[0].text), structuredContent);
                assert.deepEqual(structuredContent.relations, []);
                assert.deepEqual(structuredContent.entities.find(({ name }) => name === entity.name), entity);
            },
        ],
        ['time', 'get_current_time', { timezone: 'UTC' }, isNow],
        ['time', 'convert_time', { source_timezone: 'UTC', time: '12:00', target_timezone: 'Asia/Tokyo' }, isTokyo],
        ['git', 'git_status', { repo_path: repo }, result => {
            assert.equal(result.isError, false, JSON.stringify(result));
            assert.match(result.content[0].text, /^Repository status:\nOn branch main\n[^]*\tnot-yet-added\n/);
        }],
        ['git', 'git_log', { repo_path: repo, max_count: 5 }, result => {
            assert.match(result.content[0].text, /^Commit history:\nCommit: [0-9a-f]{40}\nAuthor: Interop\n/);
            assert.match(result.content[0].text, /\nMessage: first light\n/);
        }],
    ].map(([child, tool, args, expected]) => ({
        child,
        title: `${child}: ${tool}`,
        run: async call => {
            const result = await call(child, tool, args);
            if (typeof expected === 'function') expected(result);
            else assert.deepEqual(result, expected);
        },
    }));
}

const twice = content => [content, { content }];

/** A child sees what its definition declares and a short allow-list: nothing of the daemon's or the host's own. */
function sees(env, home) {
    assert.equal(env.HOME, home);
    assert.equal(env.INTEROP_DECLARED, 'by the definition');
    assert.equal(env.INTEROP_DAEMON_SECRET, undefined);
    assert.equal(env.INTEROP_HOST_SECRET, undefined);
}

function isNow({ content, structuredContent, isError }) {
    assert.equal(isError, false);
    assert.deepEqual(JSON.parse(content[0].text), structuredContent);
    assert.equal(structuredContent.timezone, 'UTC');
    assert.ok(Math.abs(Date.parse(structuredContent.datetime) - Date.now()) < 60_000, structuredContent.datetime);
}

function isTokyo({ structuredContent: { source, target, time_difference } }) {
    assert.match(source.datetime, /T12:00:00\+00:00$/);
    assert.match(target.datetime, /T21:00:00\+09:00$/);
    assert.equal(time_difference, '+9.0h');
}
