// Prints what Node's pathToFileURL gives for several hundred paths, as JSON: the
// table that plugin.FileURL is tested against. Regenerate it with
//   node testdata/fileurls.mjs > testdata/fileurls.json
import { pathToFileURL } from "node:url"

const segments = ["plain", "Jo Ann", "José", "漢字", "🙂", "a#b", "a%b", "a%20b", "100%", "%zz", "a+b", "a&b=c;d", "it's",
  "{x}", "[x]", "a^b|c", "~user", "~", "a`b", "a$b$(c)", "a!b", "(x)", "a,b", "a@b:c", "x..y", "...", "-n", "e\u0301", "\u2028",
  "\u00a0", "مرحبا", "\u{10ffff}", "\u007f"]
for (let code = 33; code < 127; code++) {
  const c = String.fromCharCode(code)
  if (!"/\\?".includes(c)) segments.push(`p${c}q`)
}
const unixOnly = ["tab\there", "line\nbreak", "cr\rhere", "bell\u0007", "\u0001", "a<b>c", 'q"q', "a*b", "back\\slash", "what?"]
const windowsForbidden = /[<>"|*:]/

const rows = []
const add = (path, windows) => rows.push({ path, windows, url: pathToFileURL(path, { windows }).href })

for (const s of [...segments, ...unixOnly]) {
  add(`/home/u/${s}/mcp-reconnect`, false)
  // Node drops control characters at the very end of a path, where none of ours has one.
  if (!/[\x00-\x1f]$/.test(s)) add(`/${s}`, false)
}
for (const path of ["/", "/a/", "/a//b", "/a/./b", "/a/../b", "/../a", "/a/b/..", "/a/b/.", "/a b/", "/C:/x"]) add(path, false)

for (const s of segments.filter((s) => !windowsForbidden.test(s))) {
  add(`C:\\Users\\${s}\\AppData\\Local\\mcp-reconnect`, true)
  add(`\\\\server\\share\\${s}\\mcp-reconnect`, true)
}
for (const path of ["c:\\data\\mcp-reconnect", "C:/data/mcp-reconnect", "D:\\a\\..\\b\\.\\c", "D:\\a\\\\b", "D:\\a\\", "Z:\\x",
  "\\\\SERVER\\Share\\dir", "\\\\server\\share\\dir\\", "\\\\10.0.0.1\\share\\d", "\\\\server.example.org\\c$\\d"]) add(path, true)

console.log("[\n" + rows.map((row) => "  " + JSON.stringify(row)).join(",\n") + "\n]")
