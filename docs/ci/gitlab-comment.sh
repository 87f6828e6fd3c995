#!/usr/bin/env bash
# Write the job summary as a note of the merge request. Needs curl, and a project access token with the scope "api".
#
#   docs/ci/gitlab-comment.sh specgate-out/report.md
#
#   SPECGATE_GITLAB_TOKEN                          the token; a masked variable of the project
#   CI_API_V4_URL CI_PROJECT_ID CI_MERGE_REQUEST_IID   set by GitLab in pipelines of merge requests
set -euo pipefail

: "${SPECGATE_GITLAB_TOKEN:?set it to a project access token with the scope api}"
: "${CI_API_V4_URL:?}" "${CI_PROJECT_ID:?}" "${CI_MERGE_REQUEST_IID:?run this in a pipeline of a merge request}"

# The token goes through a file descriptor, for the arguments of a process are seen by all.
curl --fail --silent --show-error --max-time 30 --output /dev/null \
  --config <(printf 'header = "PRIVATE-TOKEN: %s"\n' "$SPECGATE_GITLAB_TOKEN") \
  --data-urlencode "body@$1" \
  "$CI_API_V4_URL/projects/$CI_PROJECT_ID/merge_requests/$CI_MERGE_REQUEST_IID/notes"
