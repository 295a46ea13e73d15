// The CUDA kernels over copies of the test's arrays, guard bytes included.
#include <deque>
#include <memory>

#include "contract/optimizer/kernel_form.h"
#include "optimizer/kernels/cuda/kernels.h"
#include "spillway/device/device.h"

namespace spillway::optimizer::kernels {
namespace {

std::shared_ptr<device::Device> open_cuda() {
  device::DeviceOptions options;
  options.kind = device::DeviceOptions::Choice::kCuda;
  return device::open_device(options);
}

class CudaForm : public KernelForm {
 public:
  CudaForm() : device_(open_cuda()) {}

  void update(const UpdateFormat& format, std::span<ItemArrays> arrays,
              std::span<const StepScalars> scalars) override {
    std::vector<UpdateItem> items;
    for (ItemArrays& array : arrays) items.push_back(upload_item(array));
    const std::int64_t num_pieces = cuda::number_pieces(items);
    const auto num_items = static_cast<std::int64_t>(items.size());
    cuda::update(format, upload<UpdateItem>(items), num_items, num_pieces,
                 upload<const StepScalars>(scalars), stream_.native());
    finish();
  }

  double sum_of_squares(std::span<NormArray> gradients) override {
    std::vector<NormItem> items;
    for (NormArray& array : gradients) {
      items.push_back({upload(array.gradient), array.num_elements, 0, array.dtype});
    }
    const std::int64_t num_blocks = number_blocks(items);
    std::vector<double> partial_sums(static_cast<std::size_t>(num_blocks) + 1);
    double* device_sums = upload<double>(partial_sums);
    std::vector<double> sum(1);
    double* device_sum = upload<double>(sum);
    cuda::sum_of_squares(upload<NormItem>(items), static_cast<std::int64_t>(items.size()),
                         num_blocks, device_sums, stream_.native());
    cuda::reduce_partial_sums(device_sums, num_blocks, device_sum, stream_.native());
    finish();
    return sum.front();
  }

  void prepare_steps(StepArrays& arrays) override {
    arrays.scalars.resize(arrays.groups.size());
    const double* sum = upload(std::span(&arrays.sum_of_squares, 1));
    const auto* settings = upload(std::span(&arrays.settings, 1));
    const auto* groups = upload<SlotSettings>(arrays.groups);
    auto* states = upload<SlotState>(arrays.states);
    auto* scalars = upload<StepScalars>(arrays.scalars);
    auto* outcome = upload(std::span(&arrays.outcome, 1));
    cuda::prepare_steps(sum, settings, groups, static_cast<std::int64_t>(arrays.groups.size()),
                        states, scalars, outcome, stream_.native());
    finish();
  }

 private:
  struct Mirror {
    device::Buffer buffer;
    std::span<std::byte> host;
    bool writable = true;
  };

  std::byte* upload_bytes(std::span<std::byte> host, bool writable) {
    const auto bytes = Bytes(static_cast<std::int64_t>(host.size()));
    Mirror& mirror =
        mirrors_.emplace_back(Mirror{device_->allocate(bytes, "kernel contract"), host, writable});
    device_->copy(mirror.buffer.span(), host, device::Direction::kHostToDevice, stream_);
    return mirror.buffer.data();
  }

  template <typename T>
  T* upload(std::span<T> values) {
    if (values.empty()) return nullptr;
    using Plain = std::remove_const_t<T>;
    auto* data = reinterpret_cast<std::byte*>(const_cast<Plain*>(values.data()));
    return reinterpret_cast<T*>(upload_bytes({data, values.size_bytes()}, !std::is_const_v<T>));
  }

  std::byte* upload(GuardedArray& array) {
    if (array.data() == nullptr) return nullptr;
    return upload_bytes(array.block(), true) + array.offset();
  }

  UpdateItem upload_item(ItemArrays& array) {
    return {.parameter = upload(array.parameter),
            .gradient = upload(array.gradient),
            .master = upload(array.master),
            .exp_avg = upload(array.exp_avg),
            .exp_avg_sq = upload(array.exp_avg_sq),
            .exp_avg_scale = reinterpret_cast<float*>(upload(array.exp_avg_scale)),
            .exp_avg_sq_scale = reinterpret_cast<float*>(upload(array.exp_avg_sq_scale)),
            .num_elements = array.num_elements,
            .slot = array.slot};
  }

  /// Brings everything back, guard bytes too.
  void finish() {
    for (Mirror& mirror : mirrors_) {
      if (mirror.writable) {
        device_->copy(mirror.host, mirror.buffer.span(), device::Direction::kDeviceToHost, stream_);
      }
    }
    stream_.synchronize();
    mirrors_.clear();
  }

  std::shared_ptr<device::Device> device_;
  device::Stream stream_ = device_->create_stream("kernel contract");
  std::deque<Mirror> mirrors_;
};

}  // namespace

std::unique_ptr<KernelForm> make_cuda_form() { return std::make_unique<CudaForm>(); }

}  // namespace spillway::optimizer::kernels
