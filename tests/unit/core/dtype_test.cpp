#include "spillway/core/dtype.h"

#include <gtest/gtest.h>

#include "spillway/core/error.h"

namespace spillway {
namespace {

TEST(DType, names_of_megatron_and_torch_are_read) {
  EXPECT_EQ(parse_dtype("fp32"), DType::kFloat32);
  EXPECT_EQ(parse_dtype("torch.bfloat16"), DType::kBFloat16);
  EXPECT_EQ(parse_dtype("half"), DType::kFloat16);
  EXPECT_EQ(name_of(parse_dtype("torch.uint8")), "uint8");
}

TEST(DType, an_unknown_name_is_refused_with_the_accepted_ones) {
  for (const char* bad : {"", "fp17", "torch.", "float 32"}) {
    try {
      (void)parse_dtype(bad);
      FAIL() << bad;
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find("bf16"), std::string::npos);
    }
  }
}

TEST(DType, sizes) {
  EXPECT_EQ(size_of(DType::kBFloat16), Bytes(2));
  EXPECT_EQ(size_of(DType::kFloat32), Bytes(4));
  EXPECT_EQ(size_of(DType::kInt64), Bytes(8));
}

}  // namespace
}  // namespace spillway
