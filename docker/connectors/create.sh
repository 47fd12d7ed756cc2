#!/bin/bash
# Hands every *.json beside this file to its worker, and waits until their tasks run.
set -euo pipefail
for file in /connectors/*.json; do
  name=$(basename "$file" .json)
  curl --fail --silent --show-error --request PUT --header 'Content-Type: application/json' \
    --data "@$file" "http://connect-$name:8083/connectors/$name/config" > /dev/null
done
for file in /connectors/*.json; do
  name=$(basename "$file" .json)
  until curl --fail --silent "http://connect-$name:8083/connectors/$name/status" | grep --quiet '"tasks":\[{[^]]*"RUNNING"'; do
    sleep 1
  done
done
touch /tmp/created
exec sleep infinity
