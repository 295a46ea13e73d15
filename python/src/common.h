// What every file of the Python module shares.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>

#include "spillway/core/bytes.h"

namespace spillway::python {

namespace py = pybind11;

/// Memory and stream handles cross the border as integers (`tensor.data_ptr()`,
/// `stream.cuda_stream`).
template <typename T>
T* to_pointer(std::uintptr_t address) {
  return reinterpret_cast<T*>(address);  // NOLINT(performance-no-int-to-ptr)
}

/// Held while a call runs that may wait: other Python threads go on.
using ReleaseGil = py::call_guard<py::gil_scoped_release>;

void bind_device(py::module_& m);
void bind_optimizer(py::module_& m);
void bind_activation(py::module_& m);
void bind_config(py::module_& m);

}  // namespace spillway::python
