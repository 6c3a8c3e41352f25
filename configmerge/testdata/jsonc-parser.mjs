// Writes jsonc-parser.json: what the parser that OpenCode reads its configuration with, called as OpenCode calls it,
// makes of some hundred texts. To make it anew, in this directory:
//
//	npm install --no-save --prefix /tmp/jsonc jsonc-parser@3.3.1
//	node jsonc-parser.mjs /tmp/jsonc/node_modules/jsonc-parser/lib/umd/main.js > jsonc-parser.json
import { createRequire } from "node:module"
const { parse } = createRequire(import.meta.url)(process.argv[2])

let seed = 1
const random = (n) => {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
  return Math.floor((seed / 2 ** 32) * n)
}
const pick = (list) => list[random(list.length)]

const spaces = ["", "", "", " ", "\t", "\n", "\r\n", "\r", "// c\n", "// c\r", "// c\r\n", "/* c */", "/**/", "/*/ */", "/* \n // */", "//\u2028\n", "//*\n", "// \"\n", "/* \" */"]
const scalars = ["null", "true", "false", "0", "-0", "1", "-1.5", "1e3", "1E+2", "2e-3", "12345678901234567890", '""', '"x"', '"x,]"', '"/* no */"', '"http://h//p"', '"{env:K}"', '"\\u0041\\n\\/\\""', '"é漢😀"', '"\u2028\u007f"', '"\\ud800"']
const keys = ['"a"', '"b"', '"plugins"', '"plu\\u0067ins"', '""', '"a.b"', '"é"']
const space = () => pick(spaces)
const comma = (items) => items.join(space() + "," + space()) + (items.length && random(3) === 0 ? space() + "," : "")
const list = (depth) => "[" + space() + comma(Array.from({ length: random(4) }, () => value(depth))) + space() + "]"
const object = (depth) =>
  "{" + space() + comma(Array.from({ length: random(4) }, () => pick(keys) + space() + ":" + space() + value(depth))) + space() + "}"
const value = (depth) => (depth > 2 || random(2) ? pick(scalars) : pick([list, object])(depth + 1))
const damage = [..."{}[]:,\"'/*\\ \t\r\n0-+.eaut", "//", "/*", "*/", "\u0000", "\u001f", "\u00a0", "\u2028", "\ufeff", "\\x", "\\u12", "01", "1.", ".5", "+1", "0x1", "NaN", "tru", "True", "undefined"]

const texts = new Set([
  "[", "{", "}", "x", "null", "1", '"x"', "[1,]", "[,]", "[1,,]", "{,}", '{"a":1,,}', '{"a"}', '{"a":}', '{"a":1 "b":2}',
  '{"a":1}//', '{"a":1}// c', '{"a":1}/* c', '{"a":1}/', '{"a":1}/**/ ', '{"a":1} x', '{"a":1}}', "{'a':1}", "{a:1}",
  '{"a":1 // c\r,"b":2\n}', '{"a":1 // c\u2028,"b":2\n}', '{"a":"x\ty"}', '{"a":"x\ny"}', '{"a":"\\x"}', '{"a":"\\u12"}',
  '{"a":"\\u00e9"}', '{"a":01}', '{"a":-}', '{"a":1.}', '{"a":.5}', '{"a":+1}', '{"a":1e}', '{"a":1e+}', '{"a":0x1}',
  '{"a":NaN}', '{"a":Infinity}', '{"a":tru}', '{"a":trueX}', '{"a":true/**/}', '{"a":1/**/}', '{"a":1/**/2}', '{"a":{env:K}}',
  '{"a":1}\u0000', '{"a":\u00a01}', '{"a":1}\ufeff', '{"a":1,"a":2}', '{"a":"\ud83d\ude00"}', '{"a":"\\ud83d\\ude00"}', "{/*/}",
])
while (texts.size < 450) {
  let text = space() + object(0) + space()
  if (random(3)) {
    const at = random(text.length + 1)
    text = text.slice(0, at) + (random(3) ? pick(damage) : "") + text.slice(at + random(2))
  }
  // What is blank, or starts with a byte order mark, is read here and refused there. A cut surrogate pair has no UTF-8.
  if (text.trim() && text.isWellFormed()) texts.add(text)
}
const lines = [...texts].map((text) => {
  const errors = []
  const value = parse(text, errors, { allowTrailingComma: true })
  return JSON.stringify(errors.length ? { text } : { text, value })
})
console.log("[\n" + lines.join(",\n") + "\n]")
