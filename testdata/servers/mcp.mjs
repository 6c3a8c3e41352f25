// A small MCP server (stdio) for the end-to-end tests and measurements:
//
//   node mcp.mjs NAME
//
// Files in $MCP_TEST_DIR steer it and tell of it, beside those of tools.mjs:
//   NAME.down   while it exists, the server exits at once
//   NAME.once   if it exists, the server removes it and exits at once: its next start succeeds
//   NAME.hang   while it exists, the server answers nothing
//   NAME.flap   while it exists, the server exits a moment after it was connected
//   NAME.log    gets a line for each start: the pid and the working directory
//   NAME.tools  gets a line whenever its tools are listed, as OpenCode does to connect it: the pid
// Variables, for ../compare and ../chaos:
//   MCP_TEST_TIMES   if set, a line of NAME.log ends in the time of the start as well (ms since 1970)
//   MCP_TEST_LIFE    after so many milliseconds the server dies
import { rmSync } from "node:fs"
import { createInterface } from "node:readline"
import { answer, steering } from "./tools.mjs"

const name = process.argv[2]
const { append, exists, file } = steering(name)

const time = process.env.MCP_TEST_TIMES ? ` ${Date.now()}` : ""
append("log", `${process.pid} ${process.cwd()}${time}`)
if (exists("down")) process.exit(1)
if (exists("once")) {
  rmSync(file("once"))
  process.exit(1)
}
if (process.env.MCP_TEST_LIFE) setTimeout(() => process.exit(1), Number(process.env.MCP_TEST_LIFE)) // for ../compare

createInterface({ input: process.stdin })
  .on("line", async (line) => {
    const request = JSON.parse(line)
    if (request.id === undefined || exists("hang")) return
    if (request.method === "tools/list") {
      append("tools", process.pid)
      if (exists("flap")) setTimeout(() => process.exit(1), 50)
    }
    process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id: request.id, ...(await answer(name, request)) }) + "\n")
  })
  .on("close", () => process.exit(0))
