// A small MCP server (stdio) for the end-to-end tests and measurements:
//
//   node mcp.mjs NAME
//
// Files in $MCP_TEST_DIR steer it and tell of it:
//   NAME.down   while it exists, the server exits at once
//   NAME.hang   while it exists, the server answers nothing
//   NAME.flap   while it exists, the server exits a moment after it was connected
//   NAME.log    gets a line for each start: the pid and the working directory
//   NAME.tools  gets a line whenever its tools are listed, as OpenCode does to connect it: the pid
// Variables, both for ../compare:
//   MCP_TEST_TIMES   if set, a line of NAME.log ends in the time of the start as well (ms since 1970)
//   MCP_TEST_LIFE    after so many milliseconds the server dies
// It has one tool, "echo", which returns its argument.
import { appendFileSync, existsSync } from "node:fs"
import { join } from "node:path"
import { createInterface } from "node:readline"

const name = process.argv[2]
const file = (ending) => join(process.env.MCP_TEST_DIR, `${name}.${ending}`)

const time = process.env.MCP_TEST_TIMES ? ` ${Date.now()}` : "" // for ../compare
appendFileSync(file("log"), `${process.pid} ${process.cwd()}${time}\n`)
if (existsSync(file("down"))) process.exit(1)
if (process.env.MCP_TEST_LIFE) setTimeout(() => process.exit(1), Number(process.env.MCP_TEST_LIFE)) // for ../compare

const answers = {
  initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name, version: "1.0.0" } }),
  ping: () => ({}),
  "tools/list": () => {
    appendFileSync(file("tools"), `${process.pid}\n`)
    if (existsSync(file("flap"))) setTimeout(() => process.exit(1), 50)
    return {
      tools: [{ name: "echo", description: "Returns its text", inputSchema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] } }],
    }
  },
  "tools/call": ({ arguments: { text } }) => ({ content: [{ type: "text", text: `${name} says ${text}` }] }),
}

createInterface({ input: process.stdin })
  .on("line", (line) => {
    const { id, method, params } = JSON.parse(line)
    if (id === undefined || existsSync(file("hang"))) return
    const answer = answers[method]
    const message = answer ? { result: answer(params) } : { error: { code: -32601, message: `no method ${method}` } }
    process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, ...message }) + "\n")
  })
  .on("close", () => process.exit(0))
