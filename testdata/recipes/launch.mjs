import { execFileSync, spawn } from "node:child_process"

const environment = { ...process.env }
const printed = execFileSync("mcp-reconnect", ["env", "--format", "json"], { encoding: "utf8" })
for (const [name, value] of Object.entries(JSON.parse(printed))) {
  if (value === null) delete environment[name]
  else environment[name] = value
}
const opencode = spawn("opencode", ["serve", "--port", "4242"], { env: environment, stdio: "inherit" })
opencode.on("exit", (status) => process.exit(status ?? 1))
