# Compiler settings shared by every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")

find_program(SPILLWAY_CCACHE ccache)
if(SPILLWAY_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${SPILLWAY_CCACHE}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${SPILLWAY_CCACHE}")
endif()

# The C++ library first: PyTorch's libtorch exports parts of std::filesystem of its own, one of which calls a
# null pointer, and what stands first on the link line is found first at run time.
link_libraries(stdc++)

if(SPILLWAY_SANITIZER)
  add_compile_options("-fsanitize=${SPILLWAY_SANITIZER}" -fno-omit-frame-pointer)
  add_link_options("-fsanitize=${SPILLWAY_SANITIZER}")
  add_compile_definitions(SPILLWAY_SANITIZED=1)
endif()

# CUDA: an explicit architecture list, because "native" fails on a machine without a GPU.
set(SPILLWAY_HAVE_CUDA OFF)
if(NOT SPILLWAY_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES "80;90" CACHE STRING "GPU architectures to build for")
    endif()
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    enable_language(CUDA)
    # CMake 3.25 does not know that nvcc 12 and later speak C++20.
    if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    find_package(CUDAToolkit REQUIRED)
    set(SPILLWAY_HAVE_CUDA ON)
  elseif(SPILLWAY_CUDA STREQUAL "ON")
    message(FATAL_ERROR "SPILLWAY_CUDA=ON, but no nvcc was found. "
      "Put it on the PATH, set CMAKE_CUDA_COMPILER, or use the preset 'cpu'.")
  endif()
endif()
message(STATUS "Spillway: CUDA backend ${SPILLWAY_HAVE_CUDA}")
