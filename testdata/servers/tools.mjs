// What the servers of this directory have in common: one tool, which returns its argument, and the files
// in $MCP_TEST_DIR that steer it. They are read at each request, so that a server can be steered while it runs.
//   NAME.slow     holds how many milliseconds pass before the server answers "initialize"
//   NAME.tool     holds the tool's name, which is "echo" without it
//   NAME.unknown  while it exists, a call of any other tool returns an error, as Python's SDK does ("Unknown tool: X");
//                 without it the call is refused, as the TypeScript SDK does (-32602, "Tool X not found")
//   NAME.fails    holds what calls return as an error
//   NAME.refuses  holds what calls are refused with: the code of JSON-RPC, a space, and the message
//   NAME.busy     while it exists, calls of the tool wait
import { appendFileSync, existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"

// steering gives access to the files of the server called name.
export function steering(name) {
  const file = (ending) => join(process.env.MCP_TEST_DIR, `${name}.${ending}`)
  return {
    exists: (ending) => existsSync(file(ending)),
    read: (ending) => (existsSync(file(ending)) ? readFileSync(file(ending), "utf8").trim() : undefined),
    append: (ending, line) => appendFileSync(file(ending), line + "\n"),
    file,
  }
}

// answer returns the "result" or the "error" of a request.
export async function answer(name, { method, params }) {
  const { exists, read } = steering(name)
  const tool = read("tool") || "echo"
  const failure = (text) => ({ result: { isError: true, content: [{ type: "text", text }] } })
  const refusal = (code, message) => ({ error: { code, message } })
  switch (method) {
    case "initialize":
      await sleep(Number(read("slow") ?? 0))
      return { result: { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name, version: "1.0.0" } } }
    case "ping":
      return { result: {} }
    case "tools/list":
      return {
        result: {
          tools: [{ name: tool, description: "Returns its text", inputSchema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] } }],
        },
      }
    case "tools/call": {
      if (params.name !== tool) return exists("unknown") ? failure(`Unknown tool: ${params.name}`) : refusal(-32602, `Tool ${params.name} not found`)
      while (exists("busy")) await sleep(20)
      const [, code, message] = read("refuses")?.match(/^(\S+) (.*)$/s) ?? []
      if (code) return refusal(Number(code), message)
      if (exists("fails")) return failure(read("fails"))
      return { result: { content: [{ type: "text", text: `${name} says ${params.arguments.text}` }] } }
    }
    default:
      return refusal(-32601, `no method ${method}`)
  }
}
