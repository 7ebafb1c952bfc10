// Loaded by node before it reads a snippet (`plimsoll-guest supervise`): runs what prints a value once, on streams that lead
// nowhere, so that it is compiled before the code is there. Distributions build node without its code cache, and this is
// about a third of the time to the first output of a short snippet. It leaves nothing that a snippet would find, and a
// failure of its own is none of the snippet's.
'use strict';
try {
  const { Console } = require('console');
  const { Writable } = require('stream');
  const nowhere = () => new Writable({ write(chunk, encoding, done) { done(); } });
  // The mode is given: to find one out, node opens the real stderr.
  new Console({ stdout: nowhere(), stderr: nowhere(), colorMode: false }).log('x', 1, { list: [1, 'x'] });
} catch {
  // Then the snippet compiles it.
}
const at = process.execArgv.indexOf(__filename);
if (at > 0) process.execArgv.splice(at - 1, 2);
delete require.cache[__filename];
