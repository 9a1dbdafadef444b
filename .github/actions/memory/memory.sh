#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares the memory of tests with golden values, and posts the table. action.yml sets GOLDEN, TESTS, PYTHON, COMMENT, GH_TOKEN and
# PULL_REQUEST, and GitHub the other variables. Exit status: that of pytest.
set -euo pipefail
table=${RUNNER_TEMP:-/tmp}/tidepool-memory.md
mark="<!-- tidepool memory of $GOLDEN -->"

# Keeps one comment for each golden file. A pull request of a fork has no right to comment, which is no failure of its tests.
comment() {
  local comments=repos/$GITHUB_REPOSITORY/issues/$PULL_REQUEST/comments found
  found=$(gh api --paginate "$comments" --jq ".[] | select(.body | startswith(\"$mark\")) | .id") || return 1
  if [ -n "$found" ]; then
    gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/${found%%$'\n'*}" --field "body=@$table"
  else
    gh api --silent --method POST "$comments" --field "body=@$table"
  fi
}

status=0
rm -f "$table"
# Several words of TESTS are several arguments.
# shellcheck disable=SC2086
"$PYTHON" -m pytest --tidepool-golden "$GOLDEN" --tidepool-golden-table "$table" $TESTS || status=$?
if [ ! -s "$table" ]; then
  echo "::error::pytest wrote no table of memory"
  exit "$((status == 0 ? 1 : status))"
fi
sed -i "1i $mark" "$table"
echo "table=$table" >>"$GITHUB_OUTPUT"
cat "$table" >>"$GITHUB_STEP_SUMMARY"
if [ "$COMMENT" = true ] && [ -n "$PULL_REQUEST" ]; then
  comment || echo "::notice::the table of memory was not posted, expected a token with pull-requests: write"
fi
exit "$status"
