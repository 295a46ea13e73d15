#!/usr/bin/env bash
# Installs what building and testing needs from the distribution's packages (Debian 12 or newer).
# Asks for nothing; does nothing when everything is there. With --lint also the formatting and lint tools.
set -euo pipefail

packages=(g++ make cmake ninja-build ccache git pkg-config
          libtorch-dev libopenblas0-pthread
          libcli11-dev libyaml-cpp-dev nlohmann-json3-dev libfmt-dev libspdlog-dev
          libgtest-dev libgmock-dev libbenchmark-dev libjs-chart.js chromium
          python3 python3-dev python3-numpy python3-torch python3-pytest pybind11-dev)
[ "${1:-}" = "--lint" ] && packages+=(clang-format-19 clang-tidy-19)

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = "installed" ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
  echo "These packages are missing, and there is no apt-get to install them: ${missing[*]}" >&2
  exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "Run as root, or install sudo: ${missing[*]} are missing." >&2; exit 1; }
  as_root=(sudo)
fi
echo "Installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
