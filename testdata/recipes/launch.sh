#!/bin/sh
set -e
environment=$(mcp-reconnect env --shell sh)   # on its own line, so that -e sees a failure
eval "$environment"
exec opencode serve --port 4242
