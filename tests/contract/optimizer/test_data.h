// Formats, sizes and values that the contracts are tried with.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "contract/optimizer/kernel_form.h"

namespace spillway::optimizer::kernels {

/// Every format for which there is a kernel.
[[nodiscard]] std::vector<UpdateFormat> all_formats();
[[nodiscard]] std::string describe(const UpdateFormat& format);

/// Sizes around every vector, tile and block length.
[[nodiscard]] std::vector<std::int64_t> awkward_sizes();

enum class Values : unsigned char {
  kOrdinary,  ///< what training gives
  kExtreme,   ///< infinities, NaNs of any payload, subnormals, zeros of both signs, any bits
};

/// Deterministic: the same seed gives the same arrays.
[[nodiscard]] ItemArrays make_item(const UpdateFormat& format, std::int64_t num_elements,
                                   std::int64_t misalignment, Values values, std::uint64_t seed);
/// One item of each awkward size, at changing alignments; slots 0 and 1 in turn.
[[nodiscard]] std::vector<ItemArrays> make_items(const UpdateFormat& format, Values values,
                                                 std::uint64_t seed);
[[nodiscard]] NormArray make_gradient(DType dtype, std::int64_t num_elements,
                                      std::int64_t misalignment, std::uint64_t seed);

/// Scalars of a third step, with and without L2 decay.
[[nodiscard]] std::vector<StepScalars> third_step();

/// Fails the test where an array differs or a guard byte changed.
void expect_same(std::span<ItemArrays> actual, std::span<ItemArrays> expected);

}  // namespace spillway::optimizer::kernels
