// Finds out, once a step, which memory the parameters' gradients are in.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common.h"
#include "spillway/optimizer/parameter.h"

namespace spillway::python {

/// One parameter of the framework's groups, in their order.
struct Watched {
  static constexpr int kFrozen = -1;     ///< not trained: must have no gradient
  static constexpr int kElsewhere = -2;  ///< another reader's: not looked at

  int slot = kFrozen;        ///< the engine's parameter, or one of the two below
  int layer = 0;             ///< as in optimizer::Parameter
  bool distributed = false;  ///< a DTensor: what counts is its `_local_tensor`
};

/// A parameter whose memory is elsewhere than at the step before.
struct Moved {
  int slot = 0;
  std::uintptr_t data = 0;
};

/// Reads `decoupled_grad`, `grad` and the addresses of many parameters without an interpreted loop:
/// this is all that a step costs in Python. Every call needs the interpreter's lock.
class GradientReader {
 public:
  /// `tensors` has one entry per `watched`. `make_dense(tensor, gradient)` returns a bf16 or fp32
  /// gradient with the tensor's strides and is called for those that are not like that already.
  GradientReader(py::list tensors, std::vector<Watched> watched, py::object bfloat16,
                 py::object float32, py::function make_dense);

  /// Reads all gradients. `groups`: the live lists of parameters. False: the lists hold other
  /// parameters than those given, or a dtype or a size has changed, or a frozen one has a gradient;
  /// the engine must be built anew. Throws UsageError if both kinds of gradient are set.
  [[nodiscard]] bool read(const py::list& groups);

  /// Of the last read(): one entry per slot. Valid until release_all().
  [[nodiscard]] std::span<const optimizer::Gradient> gradients() const { return gradients_; }
  [[nodiscard]] const std::vector<Moved>& moved() const { return moved_; }

  /// Lets go of the gradients' memory, which read() keeps alive: of one layer, or of all.
  void release(int layer);
  void release_all();

 private:
  struct Entry {
    Watched watched;
    py::object tensor;
    py::object gradient;  // kept alive while the engine may read it
    std::uintptr_t data = 0;
    std::int64_t num_elements = 0;
    py::object dtype;
    bool contiguous = true;
  };

  [[nodiscard]] bool read_entry(Entry& entry, std::size_t index);
  [[nodiscard]] bool read_parameter(Entry& entry, py::handle local);
  [[nodiscard]] bool fits(const Entry& entry, py::handle local) const;
  [[nodiscard]] optimizer::Gradient describe(Entry& entry) const;

  std::vector<Entry> entries_;
  std::vector<optimizer::Gradient> gradients_;
  std::vector<Moved> moved_;
  py::object bfloat16_;
  py::object float32_;
  py::function make_dense_;
};

}  // namespace spillway::python
