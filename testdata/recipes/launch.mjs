import { execFileSync, spawn } from "node:child_process"

const environment = JSON.parse(execFileSync("mcp-reconnect", ["env", "--format", "json"], { encoding: "utf8" }))
spawn("opencode", ["serve", "--port", "4242"], { env: { ...process.env, ...environment }, stdio: "inherit" })
