#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# CuPy on a pool. Its wheel holds NVIDIA's runtime statically, so the one module that calls the runtime is built again,
# from CuPy's own source, against the stand-in's.
. "$(dirname "$0")/common.sh"
version=14.2.0
environment cupy-$version cupy-cuda13x==$version cuda-pathfinder==1.9.0 numpy==2.4.6 fastrlock Cython==3.2.4 packaging==26.3 setuptools
module=$(echo "$packages"/cupy_backends/cuda/api/runtime.cpython-*.so)
if [ ! -e "$environment/runtime.built" ]; then
  CUDA_PATH=$CUDA "$environment/bin/pip" download -q --disable-pip-version-check --no-deps \
    --no-binary cupy -d "$environment" "cupy==$version" >"$scratch/pip" 2>&1 || { tail -n 3 "$scratch/pip"; exit 77; }
  tar xzf "$environment/cupy-$version.tar.gz" -C "$environment"
  (cd "$environment/cupy-$version"
   "$environment/bin/python" "$here/build_cupy_runtime.py" >"$scratch/cython" 2>&1 || { tail "$scratch/cython"; exit 1; }
   g++ -O1 -w -shared -fPIC -std=c++17 -DCUPY_CUDA_VERSION=13000 -DCUPY_USE_HIP=0 -I. -Icupy_backends \
     -Icupy_backends/cuda/api -Icupy/_core/include -I"$CUDA/include" \
     -I"$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("include"))')" \
     cupy_backends/cuda/api/runtime.cpp -o "$module" "$BUILD/cudart_host/libcudart.so.13")
  rm -rf "$environment/cupy-$version" "$environment/cupy-$version.tar.gz"
  touch "$environment/runtime.built"
fi
package
export CUPY_CACHE_DIR=$scratch/cupy CUPY_CACHE_SAVE_CUDA_SOURCE=0
on_stand_in "$environment/bin/python" "$here/cupy_test.py"
on_stand_in "$environment/bin/python" "$SOURCE/examples/frameworks/cupy_pool.py"
