package shellenv

// nu writes for nushell, which evaluates no text but loads a record. A null in it
// becomes $env.NAME = null, and nushell passes no null on to a command, nor does
// `$env.NAME?` tell it from a variable that is not there.
var nu encoder = jsonObject

const nuHint = `%s | from json | load-env`
