#!/usr/bin/env bash
# Record the baselines anew on this machine, and push them to a branch that people review as any change.
#
#   docs/ci/refresh.sh [SUITES...]     default: suites
#
#   SPECGATE_BRANCH    the branch to push to (default: specgate/baselines-RUNNER)
#   SPECGATE_RUNNER    the kind of runner, part of the branch's name (default: this machine's name)
#   SPECGATE_SESSIONS  processes that record one after the other (default: 3)
#   SPECGATE_REMOTE    where the branch is pushed (default: origin)
#   PYTHON             the interpreter (default: python)
#
# Exit status: 0 pushed, or nothing changed; 1 an update was refused, and nothing is pushed; else git's or pytest's own.
set -euo pipefail

python=${PYTHON:-python}
runner=${SPECGATE_RUNNER:-$(uname -n)}
branch=${SPECGATE_BRANCH:-specgate/baselines-$runner}
if [ "$#" -eq 0 ]; then set -- suites; fi

# A loss that the gates do not allow is refused here: it is accepted by a person, on purpose, with --specgate-accept-loss.
"$python" -m pytest --specgate-update "--specgate-update-sessions=${SPECGATE_SESSIONS:-3}" "$@"

git add --all -- baselines
if git diff --cached --quiet -- baselines; then
  echo "refresh: the baselines are as they were"
  exit 0
fi
git -c user.name="${GIT_AUTHOR_NAME:-specgate}" -c user.email="${GIT_AUTHOR_EMAIL:-specgate@localhost}" \
  commit --quiet -m "Record the baselines of $runner anew" -- baselines
git push --force "${SPECGATE_REMOTE:-origin}" "HEAD:refs/heads/$branch"
echo "refresh: pushed to $branch"
