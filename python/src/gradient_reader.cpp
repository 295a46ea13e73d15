#include "gradient_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "spillway/core/error.h"

namespace spillway::python {

namespace {

// Attribute names, made once: looking one up by a C string builds and hashes it each time.
struct Names {
  py::str grad{"grad"};
  py::str decoupled_grad{"decoupled_grad"};
  py::str data_ptr{"data_ptr"};
  py::str dtype{"dtype"};
  py::str is_contiguous{"is_contiguous"};
  py::str is_sparse{"is_sparse"};
  py::str local_tensor{"_local_tensor"};
  py::str numel{"numel"};
};

const Names& names() {
  static const auto* interned =
      new Names();  // never destroyed: the interpreter may be gone by then
  return *interned;
}

py::object attribute(py::handle object, const py::str& name) {
  PyObject* value = PyObject_GetAttr(object.ptr(), name.ptr());
  if (value == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(value);
}

py::object call(py::handle object, const py::str& method) {
  PyObject* value = PyObject_CallMethodNoArgs(object.ptr(), method.ptr());
  if (value == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(value);
}

std::uintptr_t address_of(py::handle tensor) {
  return reinterpret_cast<std::uintptr_t>(PyLong_AsVoidPtr(call(tensor, names().data_ptr).ptr()));
}

/// `decoupled_grad` is an ordinary attribute that most parameters lack; asking their dictionary
/// costs a tenth of a failed attribute look-up.
py::object decoupled_gradient(py::handle parameter) {
  PyObject* dictionary = PyObject_GenericGetDict(parameter.ptr(), nullptr);
  if (dictionary == nullptr) {
    PyErr_Clear();
    return py::none();
  }
  const auto owned = py::reinterpret_steal<py::object>(dictionary);
  PyObject* value = PyDict_GetItemWithError(dictionary, names().decoupled_grad.ptr());
  if (value == nullptr) return py::none();
  return py::reinterpret_borrow<py::object>(value);
}

py::object gradient_of(py::handle parameter, std::size_t index) {
  py::object decoupled = decoupled_gradient(parameter);
  py::object ordinary = attribute(parameter, names().grad);
  if (decoupled.is_none()) return ordinary;
  if (ordinary.is_none()) return decoupled;
  throw UsageError(
      fmt::format("Parameter {} has both .grad and .decoupled_grad, and only one can be the "
                  "gradient of this step. Set the other one to None.",
                  index));
}

py::object local_of(const Watched& watched, py::object tensor) {
  return watched.distributed ? attribute(tensor, names().local_tensor) : std::move(tensor);
}

}  // namespace

GradientReader::GradientReader(py::list tensors, std::vector<Watched> watched, py::object bfloat16,
                               py::object float32, py::function make_dense)
    : bfloat16_(std::move(bfloat16)),
      float32_(std::move(float32)),
      make_dense_(std::move(make_dense)) {
  int num_slots = 0;
  for (std::size_t i = 0; i < watched.size(); ++i) {
    Entry entry;
    entry.watched = watched[i];
    entry.tensor = tensors[i];
    const py::object local = local_of(entry.watched, entry.tensor);
    entry.data = address_of(local);
    entry.num_elements = call(local, names().numel).cast<std::int64_t>();
    entry.dtype = attribute(local, names().dtype);
    entry.contiguous = call(local, names().is_contiguous).cast<bool>();
    num_slots = std::max(num_slots, entry.watched.slot + 1);
    entries_.push_back(std::move(entry));
  }
  gradients_.resize(static_cast<std::size_t>(num_slots));
}

bool GradientReader::read(const py::list& groups) {
  moved_.clear();
  std::size_t index = 0;
  for (const py::handle group : groups) {
    const Py_ssize_t size = PyList_Size(group.ptr());
    if (size < 0) throw py::error_already_set();
    for (Py_ssize_t i = 0; i < size; ++i, ++index) {
      if (index == entries_.size()) return false;
      if (PyList_GET_ITEM(group.ptr(), i) != entries_[index].tensor.ptr()) return false;
      if (!read_entry(entries_[index], index)) return false;
    }
  }
  return index == entries_.size();
}

bool GradientReader::read_entry(Entry& entry, std::size_t index) {
  if (entry.watched.slot == Watched::kElsewhere) return true;
  py::object gradient = gradient_of(entry.tensor, index);
  if (entry.watched.slot == Watched::kFrozen) return gradient.is_none();
  if (!read_parameter(entry, local_of(entry.watched, entry.tensor))) return false;
  auto& result = gradients_[static_cast<std::size_t>(entry.watched.slot)];
  if (gradient.is_none()) {
    entry.gradient = py::object();
    result = {};
    return true;
  }
  entry.gradient = local_of(entry.watched, std::move(gradient));
  result = describe(entry);
  return true;
}

bool GradientReader::read_parameter(Entry& entry, py::handle local) {
  const std::uintptr_t data = address_of(local);
  if (data == entry.data) return true;
  if (!attribute(local, names().dtype).is(entry.dtype) ||
      call(local, names().numel).cast<std::int64_t>() != entry.num_elements) {
    return false;
  }
  entry.data = data;
  moved_.push_back({entry.watched.slot, data});
  return true;
}

bool GradientReader::fits(const Entry& entry, py::handle local) const {
  const py::object dtype = attribute(local, names().dtype);
  if (!dtype.is(bfloat16_) && !dtype.is(float32_)) return false;
  return entry.contiguous && call(local, names().is_contiguous).is(py::bool_(true)) &&
         attribute(local, names().is_sparse).is(py::bool_(false));
}

optimizer::Gradient GradientReader::describe(Entry& entry) const {
  if (!fits(entry, entry.gradient)) {
    entry.gradient = make_dense_(local_of(entry.watched, entry.tensor), entry.gradient);
  }
  const bool bf16 = attribute(entry.gradient, names().dtype).is(bfloat16_);
  return {to_pointer<const void>(address_of(entry.gradient)),
          bf16 ? DType::kBFloat16 : DType::kFloat32};
}

void GradientReader::release(int layer) {
  for (auto& entry : entries_) {
    if (entry.watched.layer == layer) entry.gradient = py::object();
  }
}

void GradientReader::release_all() {
  for (auto& entry : entries_) entry.gradient = py::object();
}

}  // namespace spillway::python
