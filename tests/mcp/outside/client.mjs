// An agent written with the TypeScript client: takes work, does it, and hears that it changed.
// usage: node client.mjs legacy|modern http URL | stdio COMMAND ARGUMENT...
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import assert from 'node:assert/strict';

const [era, kind, target, ...rest] = process.argv.slice(2);
const agent = `typescript-${era}-${kind}`;
const transport =
    kind === 'http'
        ? new StreamableHTTPClientTransport(new URL(target), {
              requestInit: { headers: { 'Understudy-Agent': agent } }
          })
        : new StdioClientTransport({ command: target, args: rest, stderr: 'inherit' });
const mode = era === 'modern' ? { pin: '2026-07-28' } : 'legacy';
const client = new Client({ name: agent, version: '1' }, { versionNegotiation: { mode } });

async function call(name, args) {
    const result = await client.callTool({ name, arguments: args });
    return { ...result.structuredContent, isError: result.isError === true };
}

await client.connect(transport);
const { tools } = await client.listTools();
assert.ok(tools.every(tool => tool.inputSchema && tool.outputSchema && tool.annotations));

const added = await call('issue_add', { title: 'seen from outside', labels: [agent] });
assert.equal(added.result, 'accepted');
const uri = `issue://${added.issue.id}`;

// Subscribed before the change: what is heard cannot be old.
const heard = new Promise(resolve =>
    client.setNotificationHandler('notifications/resources/updated', notice => {
        if (notice.params.uri === uri) resolve(notice.params.uri);
    })
);
const subscription =
    era === 'modern'
        ? await client.listen({ resourceSubscriptions: [uri] })
        : await client.subscribeResource({ uri });

const taken = await call('work_next', { labels: [agent] });
assert.equal(taken.issue.id, added.issue.id);
const { leaseId, fence, owner } = taken.issue.lease;
assert.equal(await heard, uri);

const refused = await call('issue_claim', { id: added.issue.id, assignee: 'somebody else' });
assert.equal(refused.isError, true);
assert.deepEqual(refused.failureClasses, ['agent_name_mismatch']);

const read = await client.readResource({ uri: `lease://${added.issue.id}` });
assert.equal(JSON.parse(read.contents[0].text).lease.fence, fence);

const done = await call('work_complete', { id: added.issue.id, leaseId, fence });
assert.equal(done.result, 'accepted', JSON.stringify(done));
const late = await call('issue_lease_renew', { id: added.issue.id, leaseId, fence });
assert.equal(late.isError, true);

await subscription.close?.();
await client.close();
console.log(JSON.stringify({ era, kind, tools: tools.length, owner, fence, refused: refused.failureClasses }));
