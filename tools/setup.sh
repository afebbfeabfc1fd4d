# Shared by tools/test and tools/demo: installs what is missing (Debian 12 and 13, Ubuntu 24.04) and builds.
# Sourced, not run. Needs bash and, for what is missing, root or sudo.

set -euo pipefail
export LC_ALL=C

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
packages=(g++ cmake ninja-build libxsimd-dev zlib1g-dev libcli11-dev libfmt-dev nlohmann-json3-dev catch2 librapidcheck-dev libbenchmark-dev libonnx-testdata python3)

say() { printf '== %s\n' "$*"; }
die() {
  printf 'gradus: %s\n' "$*" >&2
  exit 2
}

installed() { [[ $(dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null) == ii* ]]; }

install_missing() {
  if ! command -v dpkg-query >/dev/null; then
    command -v cmake >/dev/null || die "this is no Debian or Ubuntu; install the equivalents of: ${packages[*]}"
    return 0
  fi
  local package missing=() as_root=()
  for package in "${packages[@]}"; do installed "$package" || missing+=("$package"); done
  ((${#missing[@]})) || return 0
  if (($(id -u) != 0)); then
    command -v sudo >/dev/null || die "missing packages and no sudo; as root run: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  local log apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300)
  log=$(mktemp)
  if ! { "${as_root[@]}" "${apt[@]}" update && "${as_root[@]}" "${apt[@]}" install -y --no-install-recommends "${missing[@]}"; } \
      </dev/null >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    die "apt-get could not install ${missing[*]} (whole log: $log)"
  fi
  rm -f "$log"
}

# As many compilers as cores, but no more than memory allows: the largest file takes about 1 GB.
jobs() {
  local cores gigabytes
  cores=$(nproc)
  gigabytes=$(awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo 2>/dev/null || echo "$cores")
  if ((gigabytes < 1)); then gigabytes=1; fi
  echo $((cores < gigabytes ? cores : gigabytes))
}

# Memory maps of the thread sanitizer of gcc 12 clash with the randomisation of newer kernels.
without_randomisation() {
  if setarch "$(uname -m)" -R true 2>/dev/null; then setarch "$(uname -m)" -R "$@"; else "$@"; fi
}

# build PRESET [TARGET...]: configures build/PRESET and builds it, quietly unless it fails.
build() {
  local preset=$1 directory=$root/build/$1 fresh=() data=()
  shift
  # A cache made elsewhere (a copied or moved tree) would build the old place.
  if [[ -f $directory/CMakeCache.txt ]] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$directory/CMakeCache.txt"; then fresh=(--fresh); fi
  if [[ -n ${GRADUS_DATA:-} ]]; then data=("-DGRADUS_DATA=$GRADUS_DATA"); fi
  say "configuring build/$preset"
  (cd "$root" && cmake --preset "$preset" "${fresh[@]}" "${data[@]}" >/dev/null) || die "cmake could not configure build/$preset"
  say "building build/$preset with $(jobs) jobs"
  local target=() log
  if (($#)); then target=(--target "$@"); fi
  log=$directory/build.log
  if ! without_randomisation cmake --build "$directory" -j "$(jobs)" "${target[@]}" >"$log" 2>&1; then
    tail -n 60 "$log" >&2
    die "the build failed (whole log: $log)"
  fi
}
