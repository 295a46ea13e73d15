// The module spillway._core: the C++ core behind the Python package. It knows no torch; tensors
// come as addresses.
#include "common.h"
#include "spillway/core/error.h"

namespace spillway::python {

namespace {

template <typename T>
py::object bind_error(py::module_& m, const char* name, py::handle base, const char* doc) {
  py::object error = py::register_exception<T>(m, name, base);
  error.attr("__doc__") = doc;
  return error;
}

void bind_errors(py::module_& m) {
  // The most derived last: pybind11 asks the translators in reverse order.
  const py::object base = bind_error<Error>(m, "Error", PyExc_RuntimeError,
                                            "Base of every error that Spillway raises on purpose.");
  bind_error<ConfigError>(m, "ConfigError", base, "A configuration that cannot be used as it is.");
  bind_error<DeviceError>(m, "DeviceError", base, "A failed copy, kernel or driver call.");
  bind_error<UsageError>(m, "UsageError", base, "A documented precondition was broken.");
  bind_error<OutOfMemory>(m, "OutOfMemory", base, "Device, host or page-locked memory ran out.");
}

}  // namespace

}  // namespace spillway::python

PYBIND11_MODULE(_core, m) {
  using namespace spillway::python;
  m.doc() = "Spillway's C++ core. Use the package `spillway`; this module's names may change.";
  m.attr("__version__") = SPILLWAY_VERSION;
  bind_errors(m);
  bind_device(m);
  bind_optimizer(m);
  bind_activation(m);
  bind_config(m);
}
