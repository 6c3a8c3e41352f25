// ---- Words -------------------------------------------------------------------
//
// What errors say, and what of them may be shown. The patterns are SHARED's, which mean
// the same here and in package reconnect: case does not count, {part} is one of
// SHARED.parts, and no pattern uses what engines read in ways of their own. Each is
// compiled when it is first used.

const expressions = new Map() // pattern -> RegExp

function expression(pattern) {
  if (!expressions.has(pattern)) expressions.set(pattern, new RegExp(spelledOut(pattern), "giu"))
  return expressions.get(pattern)
}

// A pattern with its parts in their places; one that is a list stands for any of it.
function spelledOut(pattern) {
  return pattern.replace(/\{([a-z]+)\}/gi, (_, name) => {
    const part = SHARED.parts[name]
    return spelledOut(typeof part === "string" ? part : `(?:${part.join("|")})`)
  })
}

function fits(pattern, text) {
  return text.search(expression(pattern)) >= 0
}

// The first characters of a text.
function first(length, text) {
  return [...text.slice(0, 2 * length)].slice(0, length).join("")
}

// Whether an error is one of a kind of SHARED.errors: null, or what the pattern that fits
// and its groups are.
function says(error, kind) {
  const text = first(SHARED.constants.classified, error)
  for (const pattern of SHARED.errors[kind]) {
    const [match] = text.matchAll(expression(pattern))
    if (match) return match
  }
  return null
}

// An error without what may be a secret in it: errors quote addresses, headers and
// command lines. It is cut before it is looked at: a server may say whatever it likes.
function harmless(error) {
  const { examined, errorLength } = SHARED.constants
  const secrets = Object.entries(process.env).flatMap(([name, value]) => (value.length >= 6 && fits(SHARED.variable, name) ? [value] : []))
  for (const secret of secrets.sort((a, b) => b.length - a.length)) error = error.replaceAll(secret, "…") // a longer one may begin as a shorter one
  let text = first(examined, error)
  if (text.length < error.length) text = text.replace(expression(SHARED.cut), "") + "…"
  for (const { pattern, when, instead } of SHARED.secrets)
    text = text.replace(expression(pattern), when ? (match) => (when.every((other) => fits(other, match)) ? instead : match) : instead)
  return first(errorLength, text)
}
