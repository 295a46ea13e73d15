// Connects what libtorch's autograd saves to the activation offloader.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "spillway/activation/activation_offloader.h"

namespace at {
class Tensor;
}

namespace spillway::torch {

/// While a layer of forward is open, every tensor that autograd saves is offered to the offloader.
///
/// These stay as they are: parameters and their views, constants given to keep_on_device(), tensors
/// of another device, of an integer or bool type, empty or sparse ones, and storages under the
/// offloader's floor. Of all others the storage is handed over, once however many views of it are
/// saved, and backward gets views of the reloaded bytes with the same type, sizes, strides and
/// offset. As without hooks, backward throws if a saved tensor was changed in place in between.
///
/// Use it from the thread that runs forward; backward may run in another. Graphs may outlive it.
class SavedTensorOffload {
 public:
  /// `tensor_device`: DeviceBinding::tensor_device().
  SavedTensorOffload(std::shared_ptr<activation::ActivationOffloader> offloader,
                     const std::string& tensor_device);
  ~SavedTensorOffload();
  SavedTensorOffload(const SavedTensorOffload&) = delete;
  SavedTensorOffload& operator=(const SavedTensorOffload&) = delete;

  /// The storage of `constant` is never moved; for tables that outlive the iteration.
  void keep_on_device(const at::Tensor& constant);

  [[nodiscard]] activation::ActivationOffloader& offloader() const;

  struct Shared;

 private:
  friend class LayerScope;
  std::shared_ptr<Shared> shared_;
};

/// One layer of one micro-batch's forward. Destroyed without leave() (an error), it closes the
/// layer for libtorch; ActivationOffloader::end_iteration() closes it for the offloader.
class LayerScope {
 public:
  /// A null `offload` makes a scope that does nothing, as does a forward without gradients.
  LayerScope(SavedTensorOffload* offload, int micro_batch, int layer);
  ~LayerScope();
  LayerScope(const LayerScope&) = delete;
  LayerScope& operator=(const LayerScope&) = delete;

  /// Opens the layer. What it returns is the layer's input: the gradient that comes out of it ends
  /// the layer's backward.
  [[nodiscard]] at::Tensor enter(const at::Tensor& hidden);
  /// Closes the layer. What it returns is the layer's output: the gradient that goes into it begins
  /// the layer's backward.
  [[nodiscard]] at::Tensor leave(const at::Tensor& hidden);

 private:
  std::shared_ptr<SavedTensorOffload::Shared> shared_;
  int micro_batch_;
  int layer_;
  bool input_has_gradient_ = false;
};

/// `result`, which is contiguous and was computed as rebuild(inputs). What autograd saves of it
/// from now on in this thread is not kept: backward computes it anew, once, from the inputs, which
/// are saved like any other tensor. `rebuild` gives the same bits each time. Worth it for what is
/// cheap to compute from something that is saved anyway.
[[nodiscard]] at::Tensor saved_as_recipe(
    const at::Tensor& result, std::function<at::Tensor(const std::vector<at::Tensor>&)> rebuild,
    const std::vector<at::Tensor>& inputs);

/// `x` itself as a new tensor; `passed` is called each time a gradient goes through it in backward,
/// after everything computed from the result has been. `x` needs no gradient: as it is.
[[nodiscard]] at::Tensor on_backward(const at::Tensor& x, std::function<void()> passed);

}  // namespace spillway::torch
