"""Stand-ins for what a project's build looks for: a CUDA toolkit, torch, pybind11 and CMake.

They suffice to configure a build. Nothing that they make can run.
"""

import sysconfig
from pathlib import Path

from flacheck import files
from flacheck.engine.provider import torch_folder

# The version of the toolkit that most builds find.
USUAL_TOOLKIT = "13.0.88"
# The version of torch that a build finds where none is installed.
_USUAL_TORCH = "2.9.0"
_LIBRARIES = (
    *("cudart", "cuda", "cublas", "cublasLt", "cusparse", "cusolver", "curand", "cufft", "nvrtc"),
    *("nvToolsExt", "nvJitLink", "cupti", "cudnn", "nccl", "nppc", "nvml", "nvidia-ml"),
)
_STATIC_LIBRARIES = ("cudart_static", "cudadevrt")
# Every linker takes it, also by the name of a shared library.
_EMPTY_ARCHIVE = "!<arch>\n"
# Sources of CMake's own checks are compiled by the host compiler. CMake reads the lines with `#$`.
_NVCC = r"""#!/bin/sh
top=$(dirname "$(dirname "$0")")
case " $* " in
*" --version "*|*" -V "*)
    echo "nvcc: NVIDIA (R) Cuda compiler driver"
    echo "Cuda compilation tools, release {major}.{minor}, V{version}"
    exit;;
*" __cmake_determine_cuda "*) echo "#\$ TOP=$top" >&2; exit 1;;
esac
mode= out= sources= objects= defines=
while [ $# -gt 0 ]; do
    case "$1" in
    -o) out=$2; shift;;
    -c|-E) mode=$1;;
    -I|-D) defines="$defines $1$2"; shift;;
    -isystem) defines="$defines -I$2"; shift;;
    -I*|-D*) defines="$defines $1";;
    -MT|-MF|-MQ|-x|-gencode|-arch|-code|-ccbin|-std|-t|-Xcompiler|-include) shift;;
    -*) ;;
    *.o|*.a|*.so) objects="$objects $1";;
    *.c|*.cc|*.cpp|*.cu|*.cxx) sources="$sources $1";;
    esac
    shift
done
if [ -z "$out" ] && [ "$mode" = -c ]; then out=$(basename $sources .cu).o; fi
echo "#\$ PATH=$PATH" >&2
echo "#\$ LIBRARIES=  -L$top/lib64" >&2
echo "#\$ $0" >&2
echo "#\$ g++ -o ${{out:-a.out}} -L$top/lib64 -lcudadevrt -lcudart_static -lrt -lpthread -ldl" >&2
exec g++ $mode -D__NVCC__ -D__CUDACC__ -D__CUDACC_VER_MAJOR__={major} \
    -D__CUDACC_VER_MINOR__={minor} -D__CUDACC_VER_BUILD__=88 $defines -I$top/include \
    ${{out:+-o $out}} ${{sources:+-x c++ $sources}} ${{objects:+-x none $objects}}
"""
# The flags that torch's package adds to those of the project (Caffe2/public/cuda.cmake).
_TORCH = """
set(TORCH_FOUND TRUE)
set(Torch_FOUND TRUE)
set(TORCH_VERSION "{version}")
set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=1")
set(TORCH_INCLUDE_DIRS {includes})
set(TORCH_LIBRARIES torch)
set(TORCH_INSTALL_PREFIX "{folder}")
if(NOT TARGET torch)
  enable_language(CUDA)
  string(APPEND CMAKE_CUDA_FLAGS " -DONNX_NAMESPACE=onnx_c2 --expt-relaxed-constexpr")
  string(APPEND CMAKE_CUDA_FLAGS " --expt-extended-lambda")
  find_package(CUDAToolkit)
  foreach(name torch torch_cpu torch_cuda torch_python c10 c10_cuda)
    add_library(${{name}} INTERFACE IMPORTED GLOBAL)
    set_target_properties(${{name}} PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "${{TORCH_INCLUDE_DIRS}}")
  endforeach()
endif()
"""
_PYBIND = """
set(pybind11_FOUND TRUE)
set(pybind11_INCLUDE_DIRS {includes})
if(NOT TARGET pybind11::module)
  foreach(name module headers pybind11 embed)
    add_library(pybind11::${{name}} INTERFACE IMPORTED GLOBAL)
    set_target_properties(pybind11::${{name}} PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "${{pybind11_INCLUDE_DIRS}}")
  endforeach()
endif()
function(pybind11_add_module name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG
    "STATIC;SHARED;MODULE;THIN_LTO;OPT_SIZE;NO_EXTRAS;WITHOUT_SOABI;SYSTEM" "" "")
  add_library(${{name}} MODULE ${{ARG_UNPARSED_ARGUMENTS}})
  target_link_libraries(${{name}} PRIVATE pybind11::module)
endfunction()
"""


def toolkit(folder: Path, version: str) -> Path:
    """Make a CUDA toolkit of empty libraries in a folder, and return it."""
    root = folder / "cuda"
    for name in ("bin", "include", "lib64", "nvvm/libdevice"):
        (root / name).mkdir(parents=True)
    major, minor, _ = version.split(".")
    nvcc = root / "bin" / "nvcc"
    nvcc.write_text(_NVCC.format(version=version, major=major, minor=minor))
    nvcc.chmod(0o755)
    number = int(major) * 1000 + int(minor) * 10
    for name, macro in (("cuda", "CUDA_VERSION"), ("cuda_runtime", "CUDART_VERSION")):
        (root / "include" / f"{name}.h").write_text(f"#define {macro} {number}\n")
    # CMake's FindCUDA recognizes a toolkit by it.
    (root / "include" / "device_functions.h").touch()
    for name in _LIBRARIES:
        (root / "lib64" / f"lib{name}.so").write_text(_EMPTY_ARCHIVE)
    for name in _STATIC_LIBRARIES:
        (root / "lib64" / f"lib{name}.a").write_text(_EMPTY_ARCHIVE)
    return root


def cmake_packages(folder: Path) -> dict[str, Path]:
    """Write CMake's packages of torch and pybind11, and return their folders by name.

    The headers are those of the installed torch. Without one they are empty folders, so that the
    units are listed; their compile then names torch as what is missing.
    """
    root = torch_root(folder)
    headers = root / "include"
    torch_includes = [str(headers), str(headers / "torch" / "csrc" / "api" / "include")]
    for path in torch_includes:
        Path(path).mkdir(parents=True, exist_ok=True)
    version = torch_version()
    text = _TORCH.format(version=version, includes=_list(torch_includes), folder=root)
    packages = {"Torch": _write(folder, "Torch", text, version)}
    text = _PYBIND.format(includes=_list([sysconfig.get_paths()["include"], *torch_includes]))
    packages["pybind11"] = _write(folder, "pybind11", text, "2.13.6")
    return packages


def cmake(folder: Path) -> None:
    """Make a `cmake` that does nothing, beside a toolkit's programs."""
    for name, version in (("cmake", "cmake version 3.30.0"), ("ninja", "1.11.1")):
        program = folder / "cuda" / "bin" / name
        program.write_text(f"#!/bin/sh\necho {version}\n")
        program.chmod(0o755)


def torch_root(folder: Path) -> Path:
    """Return the folder of the installed torch; without one, a folder that does not exist."""
    return Path(torch_folder() or folder) / "torch"


def torch_version() -> str:
    """Return the version of an installed torch, or a recent one."""
    file = Path(torch_folder() or "") / "torch" / "version.py"
    if file.is_file():
        for line in files.read_text(file, links=True).splitlines():
            if line.startswith("__version__"):
                return line.split("'")[1].partition("+")[0]
    return _USUAL_TORCH


def _write(folder: Path, name: str, text: str, version: str) -> Path:
    """Write a package that is compatible with any version."""
    (folder / name).mkdir()
    (folder / name / f"{name}Config.cmake").write_text(text)
    (folder / name / f"{name}ConfigVersion.cmake").write_text(
        f'set(PACKAGE_VERSION "{version}")\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n'
    )
    return folder / name


def _list(paths: list[str]) -> str:
    return " ".join(f'"{path}"' for path in paths)
