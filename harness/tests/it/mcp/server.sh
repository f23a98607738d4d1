#!/bin/sh
# A small MCP server for tests: one JSON message a line. What it is told is appended to the file $1.
log=$1
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
say() { answer "{\"content\":[{\"type\":\"text\",\"text\":\"$1\"}],\"isError\":$2}"; }

echo "started in $PWD" >> "$log"
while IFS= read -r line; do
    printf '%s\n' "$line" >> "$log"
    id=${line#*\"id\":}
    id=${id%%[,\}]*}
    case $line in
    *'"method":"initialize"'*)
        answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"1"}}' ;;
    *'"method":"tools/list"'*)
        answer '{"tools":[
            {"name":"echo","description":"Says it.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"openWorldHint":false}},
            {"name":"count","description":"Counts.","inputSchema":{"type":"object"},"outputSchema":{"type":"object","required":["n"]}},
            {"name":"lie","description":"Lies.","inputSchema":{"type":"object"},"outputSchema":{"type":"object","required":["n"]}},
            {"name":"fail","inputSchema":{"type":"object"}},
            {"name":"refuse","inputSchema":{"type":"object"}},
            {"name":"hang","inputSchema":{"type":"object"}},
            {"name":"die","inputSchema":{"type":"object"}}]}' | tr -d '\n'
        echo ;;
    *'"name":"echo"'*) say "$GREETING, from ${CARGO_MANIFEST_DIR:-nowhere}" false ;;
    *'"name":"count"'*) answer '{"content":[{"type":"text","text":"one"}],"structuredContent":{"n":1}}' ;;
    *'"name":"lie"'*) answer '{"content":[{"type":"text","text":"one"}],"structuredContent":{"m":1}}' ;;
    *'"name":"fail"'*) say "no such item" true ;;
    *'"name":"refuse"'*)
        printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"unfit arguments"}}\n' "$id" ;;
    *'"name":"die"'*)
        echo "out of memory" >&2
        kill -9 $$ ;;
    esac
done
