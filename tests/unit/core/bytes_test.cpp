#include "spillway/core/bytes.h"

#include <gtest/gtest.h>

#include "spillway/core/error.h"

namespace spillway {
namespace {

TEST(Bytes, print_in_decimal_units_as_training_logs_do) {
  EXPECT_EQ(to_string(Bytes(12)), "12 B");
  EXPECT_EQ(to_string(Bytes(1000)), "1.0 kB");
  EXPECT_EQ(to_string(Bytes(47'200'000'000)), "47.2 GB");
  EXPECT_EQ(to_string(Bytes(999'999)), "1.0 MB");
  EXPECT_EQ(to_string(Bytes(-1500)), "-1.5 kB");
}

TEST(Bytes, read_decimal_and_binary_units) {
  EXPECT_EQ(parse_bytes("80GB"), Bytes(80'000'000'000));
  EXPECT_EQ(parse_bytes("1.5 GiB"), Bytes(1'610'612'736));
  EXPECT_EQ(parse_bytes("64 mib"), 64_MiB);
  EXPECT_EQ(parse_bytes("1024"), 1_KiB);
  EXPECT_EQ(parse_bytes("2T"), Bytes(2'000'000'000'000));
}

TEST(Bytes, refuse_what_is_no_size_and_say_how_to_write_it) {
  for (const char* bad : {"", "GB", "-1GB", "1.5XB", "nan", "inf", "1e300GB", "12ib"}) {
    try {
      (void)parse_bytes(bad);
      FAIL() << bad << " was accepted";
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find("80GB"), std::string::npos) << error.what();
    }
  }
}

TEST(Bytes, round_up_to_a_multiple) {
  EXPECT_EQ(round_up(0, 256), 0);
  EXPECT_EQ(round_up(1, 256), 256);
  EXPECT_EQ(round_up(256, 256), 256);
}

}  // namespace
}  // namespace spillway
