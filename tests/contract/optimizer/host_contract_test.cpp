// What only the host forms offer: ranges, streaming stores, sizes that no test allocates.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "contract/optimizer/test_data.h"

namespace spillway::optimizer::kernels {
namespace {

class HostContract : public testing::TestWithParam<FormChoice> {
 protected:
  const HostKernels& kernels = *GetParam().host;
};

UpdateItem view(ItemArrays& arrays) {
  return {.parameter = arrays.parameter.data(),
          .gradient = arrays.gradient.data(),
          .master = arrays.master.data(),
          .exp_avg = arrays.exp_avg.data(),
          .exp_avg_sq = arrays.exp_avg_sq.data(),
          .exp_avg_scale = reinterpret_cast<float*>(arrays.exp_avg_scale.data()),
          .exp_avg_sq_scale = reinterpret_cast<float*>(arrays.exp_avg_sq_scale.data()),
          .num_elements = arrays.num_elements};
}

TEST_P(HostContract, a_range_at_a_time_gives_the_bits_of_the_whole) {
  constexpr std::int64_t kSize = 3001;
  const StepScalars scalars = third_step()[0];
  for (const UpdateFormat& format : all_formats()) {
    SCOPED_TRACE(describe(format));
    std::vector<ItemArrays> whole;
    whole.push_back(make_item(format, kSize, 1, Values::kOrdinary, 5));
    auto ranges = whole;
    kernels.update(format, view(whole[0]), 0, kSize, scalars, ParameterStore::kCached);
    for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>{2304, kSize},
                                     {0, 256},
                                     {256, 1280},
                                     {1280, 2304},
                                     {2304, 2304}}) {
      kernels.update(format, view(ranges[0]), begin, end, scalars, ParameterStore::kCached);
    }
    expect_same(ranges, whole);
  }
}

TEST_P(HostContract, streaming_stores_give_the_bits_of_cached_ones) {
  const UpdateFormat format;  // bf16 parameter beside an fp32 master
  for (const std::int64_t misalignment : {0, 1, 8, 16}) {
    for (const std::int64_t size : awkward_sizes()) {
      std::vector<ItemArrays> cached;
      cached.push_back(make_item(format, size, misalignment, Values::kOrdinary, 9));
      auto streamed = cached;
      const StepScalars scalars = third_step()[0];
      kernels.update(format, view(cached[0]), 0, size, scalars, ParameterStore::kCached);
      kernels.update(format, view(streamed[0]), 0, size, scalars, ParameterStore::kStreaming);
      expect_same(streamed, cached);
    }
  }
}

/// Address space without memory behind it until it is touched.
class HugeArray {
 public:
  explicit HugeArray(std::int64_t num_floats)
      : bytes_(static_cast<std::size_t>(num_floats) * sizeof(float)),
        data_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~HugeArray() { munmap(data_, bytes_); }
  HugeArray(const HugeArray&) = delete;
  HugeArray& operator=(const HugeArray&) = delete;
  [[nodiscard]] bool mapped() const { return data_ != MAP_FAILED; }
  [[nodiscard]] float* data() const { return static_cast<float*>(data_); }

 private:
  std::size_t bytes_;
  void* data_;
};

TEST_P(HostContract, elements_beyond_two_to_the_31_are_updated) {
  constexpr std::int64_t kSize = (std::int64_t{1} << 31) + 8;
  constexpr std::int64_t kLast = kSize - 1;
  const HugeArray parameter(kSize);
  const HugeArray gradient(kSize);
  const HugeArray exp_avg(kSize);
  const HugeArray exp_avg_sq(kSize);
  ASSERT_TRUE(parameter.mapped() && gradient.mapped() && exp_avg.mapped() && exp_avg_sq.mapped());
  parameter.data()[kLast] = 1.0F;
  gradient.data()[kLast] = 0.5F;
  const UpdateItem item{.parameter = parameter.data(),
                        .gradient = gradient.data(),
                        .exp_avg = exp_avg.data(),
                        .exp_avg_sq = exp_avg_sq.data(),
                        .num_elements = kSize};
  const UpdateFormat format{
      .parameter = DType::kFloat32, .gradient = DType::kFloat32, .master = MasterKind::kParameter};
  kernels.update(format, item, std::int64_t{1} << 31, kSize, third_step()[0],
                 ParameterStore::kCached);
  EXPECT_NE(parameter.data()[kLast], 1.0F);
  EXPECT_NE(exp_avg.data()[kLast], 0.0F);
}

INSTANTIATE_TEST_SUITE_P(Form, HostContract, testing::ValuesIn(host_forms()), form_name);

}  // namespace
}  // namespace spillway::optimizer::kernels
