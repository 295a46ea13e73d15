#include "optimizer/chunk_pipeline.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "spillway/optimizer/host_threads.h"

namespace spillway::optimizer {
namespace {

using device::Direction;
using device::Event;
using device::Space;

Bytes total_states(const std::vector<StateBlock>& chunks) {
  Bytes total;
  for (const StateBlock& chunk : chunks) total += chunk.planes.total;
  return total;
}

std::int64_t staged_bytes(const StateBlock& chunk) {
  return chunk.plane_elements * staged_bytes_per_element(chunk.format);
}

std::size_t max_segments(const std::vector<StateBlock>& chunks) {
  std::size_t result = 0;
  for (const StateBlock& chunk : chunks) result = std::max(result, chunk.segments.size());
  return result;
}

Bytes table_bytes(std::size_t num_segments) {
  const std::size_t bytes =
      num_segments * std::max(sizeof(kernels::UpdateItem), 2 * sizeof(kernels::MoveItem));
  return Bytes(static_cast<std::int64_t>(bytes));
}

/// Pageable memory, for those who switch page-locking off.
device::Buffer pageable(Bytes bytes) {
  constexpr std::align_val_t kAlignment{4096};
  auto* const data = static_cast<std::byte*>(::operator new(bytes.size(), kAlignment));
  return {data, bytes, Space::kHost, false, [data] { ::operator delete(data, kAlignment); }};
}

device::Buffer host_memory(device::Device& device, Bytes bytes, bool pinned,
                           std::string_view purpose) {
  return pinned ? device.allocate_host(bytes, purpose) : pageable(bytes);
}

template <typename T>
T take_front(std::deque<T>& queue) {
  T front = std::move(queue.front());
  queue.pop_front();
  return front;
}

int take_back(std::vector<int>& indices) {
  const int index = indices.back();
  indices.pop_back();
  return index;
}

}  // namespace

ChunkPipeline::ChunkPipeline(device::Device& device, DeviceKernels& device_kernels,
                             const kernels::HostKernels& host_kernels,
                             const ParameterSet& parameters, const OptimizerOptions& options,
                             std::vector<StateBlock> chunks)
    : device_(device),
      device_kernels_(device_kernels),
      host_kernels_(host_kernels),
      parameters_(parameters),
      options_(options),
      blocks_(std::move(chunks)),
      chunks_(blocks_.size()),
      balancer_(options.update),
      in_(device, Direction::kHostToDevice, "states in"),
      out_(device, Direction::kDeviceToHost, "states out"),
      update_stream_(device.create_stream("chunk update")) {
  if (options.update != OffloadUpdate::kStream)
    pool_ = std::make_unique<HostPool>(
        choose_host_threads(read_cpu_budget(), options.host_threads).count);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const int chunk = static_cast<int>(i);
    all_chunks_.push_back(chunk);
    for (const Segment& segment : blocks_[i].segments)
      for (const int layer : parameters.layers(segment.parameter)) {
        std::vector<int>& of_layer = chunks_of_layer_[layer];
        if (of_layer.empty() || of_layer.back() != chunk) of_layer.push_back(chunk);
      }
  }
  reserve_states();
  allocate_staging();
  feeder_ = std::jthread([this] { feed(); });
  (void)pthread_setname_np(feeder_.native_handle(), "chunk feeder");
}

void ChunkPipeline::reserve_states() {
  arena_.emplace(host_memory(device_, total_states(blocks_), options_.pin_cpu_params,
                             "offloaded optimizer states"),
                 "offloaded optimizer states");
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    chunks_[i].states = arena_->reserve(blocks_[i].planes.total);
    std::ranges::fill(chunks_[i].states, std::byte{0});
  }
}

void ChunkPipeline::allocate_staging() {
  Bytes slot_bytes;
  Bytes stage_bytes;
  for (const StateBlock& chunk : blocks_) {
    stage_bytes = std::max(stage_bytes, Bytes(round_up(staged_bytes(chunk), 256)));
    slot_bytes = std::max({slot_bytes, stage_bytes, chunk.planes.total});
  }
  const int num = std::min<int>(options_.ring_slots, static_cast<int>(blocks_.size()));
  const std::size_t most = max_segments(blocks_);
  slot_bytes = Bytes(round_up(slot_bytes.value, 256));
  device_staging_ = device_.allocate(slot_bytes * num, "optimizer staging");
  slots_.reserve(static_cast<std::size_t>(num));
  for (int i = 0; i < num; ++i) {
    const std::size_t begin = static_cast<std::size_t>(i) * slot_bytes.size();
    slots_.push_back({device_staging_.span().subspan(begin, slot_bytes.size()),
                      SharedTable(device_, table_bytes(most), SharedTable::Reading::kInPlace,
                                  "optimizer chunk table")});
    free_slots_.push_back(i);
  }
  if (!pool_) return;
  host_staging_ =
      host_memory(device_, stage_bytes * num, options_.pin_cpu_grads, "optimizer gradient staging");
  for (int i = 0; i < num; ++i) {
    const std::size_t begin = static_cast<std::size_t>(i) * stage_bytes.size();
    stages_.emplace_back(host_staging_.span().subspan(begin, stage_bytes.size()), most,
                         static_cast<bool>(options_.host_update));
    free_stages_.push_back(i);
  }
}

ChunkPipeline::~ChunkPipeline() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return at_rest_ || error_; });
    stopping_ = true;
    wake_.notify_one();
  }
  feeder_.join();
  pool_.reset();  // after a failure work may still be under way on memory that is about to go
  for (device::Stream* stream : {&in_.stream(), &update_stream_, &out_.stream()}) {
    try {
      stream->synchronize();
    } catch (...) {  // NOLINT(bugprone-empty-catch): callers were told already
    }
  }
}

// ---- Callers ------------------------------------------------------------------------------------

void ChunkPipeline::throw_if_failed() const {
  if (error_) std::rethrow_exception(error_);
}

void ChunkPipeline::post(const Step& step) {
  const std::scoped_lock lock(mutex_);
  throw_if_failed();
  for (Chunk& chunk : chunks_) chunk.publication = {.published = false};
  posted_ = step;
  at_rest_ = false;
  wake_.notify_one();
}

void ChunkPipeline::order_after(device::Stream& stream, std::span<const int> chunks) {
  Publication last_update;
  Publication last_copy;
  {
    std::unique_lock lock(mutex_);
    for (const int index : chunks) {
      const Publication& publication = chunks_[static_cast<std::size_t>(index)].publication;
      changed_.wait(lock, [&] { return publication.published || error_; });
      throw_if_failed();
      if (publication.by == Publisher::kNone) continue;  // nothing was changed
      Publication& last = publication.by == Publisher::kInLane ? last_copy : last_update;
      if (publication.number >= last.number) last = publication;
    }
  }
  stream.wait(last_update.event);
  stream.wait(last_copy.event);
}

void ChunkPipeline::order_after_layer(device::Stream& stream, int layer) {
  const auto found = chunks_of_layer_.find(layer);
  if (found != chunks_of_layer_.end()) order_after(stream, found->second);
}

void ChunkPipeline::order_after_all(device::Stream& stream) { order_after(stream, all_chunks_); }

void ChunkPipeline::wait_until_idle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return at_rest_ || error_; });
  throw_if_failed();
}

double ChunkPipeline::host_share() {
  const std::scoped_lock lock(mutex_);
  return host_share_;
}

Bytes ChunkPipeline::device_staging() const {
  Bytes total = device_staging_.bytes();
  for (const DeviceSlot& slot : slots_) total += slot.table.device_bytes();
  return total;
}

Bytes ChunkPipeline::host_staging() const {
  Bytes total = host_staging_.bytes();
  for (const DeviceSlot& slot : slots_) total += slot.table.host_bytes();
  return total;
}

// ---- The feeder ---------------------------------------------------------------------------------

void ChunkPipeline::feed() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || (!error_ && !at_rest_); });
    if (stopping_) return;
    const std::optional<Step> next = step_ && num_published_ < std::ssize(blocks_)
                                         ? std::nullopt
                                         : std::exchange(posted_, std::nullopt);
    lock.unlock();
    bool progressed = next.has_value();
    try {
      if (next) take_step(*next);
      progressed |= advance();
    } catch (...) {
      fail(std::current_exception());
    }
    lock.lock();
    if (!posted_ && is_at_rest()) {
      at_rest_ = true;
      changed_.notify_all();
    } else if (!progressed) {
      wake_.wait_for(lock, kPollInterval);
    }
  }
}

void ChunkPipeline::fail(std::exception_ptr error) {
  const std::scoped_lock lock(mutex_);
  error_ = std::move(error);
  changed_.notify_all();
}

bool ChunkPipeline::is_at_rest() const {
  for (const Queue* queue : {&waiting_to_stream_, &fetched_, &updated_, &written_,
                             &waiting_for_host_, &gathered_, &staged_, &computed_, &returned_})
    if (!queue->empty()) return false;
  return true;
}

/// What frees places comes first; of two that want the same lane, the one that others wait for.
bool ChunkPipeline::advance() {
  bool progressed = retire_written();
  progressed |= retire_returned();
  progressed |= return_parameters();
  progressed |= update_on_host();
  progressed |= send_gathered();
  progressed |= fetch_gradients();
  progressed |= write_states_back();
  progressed |= update_on_device();
  progressed |= fetch_states();
  if (step_ && !ready_at_ && step_->ready.done()) ready_at_ = std::chrono::steady_clock::now();
  if (is_at_rest()) observe_step();
  return progressed;
}

void ChunkPipeline::take_step(const Step& step) {
  // States still on their way out delay this step: they have taken until now.
  if (timing_ && ready_at_ && !written_.empty()) timing_->stream_seconds = seconds_since_ready();
  observe_step();
  step_ = step;
  num_published_ = 0;
  timing_ = StepTiming{};
  ready_at_.reset();
  assign();
}

double ChunkPipeline::seconds_since_ready() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - *ready_at_).count();
}

void ChunkPipeline::observe_step() {
  if (!timing_) return;
  balancer_.observe(*timing_);
  const auto host = static_cast<double>(timing_->host_elements);
  const auto total = host + static_cast<double>(timing_->streamed_elements);
  timing_.reset();
  if (total == 0.0) return;
  const std::scoped_lock lock(mutex_);
  host_share_ = host / total;
}

bool ChunkPipeline::has_gradient(const StateBlock& block) const {
  return std::ranges::any_of(block.segments, [this](const Segment& segment) {
    return step_->gradients[static_cast<std::size_t>(segment.parameter)].data != nullptr;
  });
}

/// Spreads the host's share evenly over the chunks, so that both ways work on neighbours and layers
/// become complete in their order.
void ChunkPipeline::assign() {
  const double share = balancer_.host_share();
  double owed_to_host = 0.0;
  for (const int index : all_chunks_) {
    const StateBlock& block = blocks_[static_cast<std::size_t>(index)];
    if (!has_gradient(block)) {
      publish(index, Publisher::kNone, Event());
      continue;
    }
    const auto size = static_cast<double>(block.num_elements);
    owed_to_host += share * size;
    Load load{.chunk = index};
    if (2.0 * owed_to_host >= size) {
      owed_to_host -= size;
      timing_->host_elements += block.num_elements;
      waiting_for_host_.push_back(std::move(load));
    } else {
      timing_->streamed_elements += block.num_elements;
      waiting_to_stream_.push_back(std::move(load));
    }
  }
}

void ChunkPipeline::publish(int chunk, Publisher by, Event event) {
  ++num_published_;
  const std::scoped_lock lock(mutex_);
  chunks_[static_cast<std::size_t>(chunk)].publication = {
      .published = true, .by = by, .number = num_published_, .event = std::move(event)};
  changed_.notify_all();
}

/// The chunk's states are complete; what it occupied is free.
void ChunkPipeline::finish(Load& load) {
  chunks_[static_cast<std::size_t>(load.chunk)].busy = false;
  if (load.slot >= 0) free_slots_.push_back(load.slot);
  if (load.stage >= 0) free_stages_.push_back(load.stage);
}

// ---- Streamed: states in, update, states out ----------------------------------------------------

bool ChunkPipeline::fetch_states() {
  bool progressed = false;
  while (!waiting_to_stream_.empty() && !free_slots_.empty() && in_.has_room()) {
    Chunk& chunk = chunks_[static_cast<std::size_t>(waiting_to_stream_.front().chunk)];
    if (chunk.busy) break;
    Load load = take_front(waiting_to_stream_);
    chunk.busy = true;
    load.slot = take_back(free_slots_);
    const Copy copy{slots_[static_cast<std::size_t>(load.slot)].memory.first(chunk.states.size()),
                    chunk.states};
    load.event = in_.send({&copy, 1});
    fetched_.push_back(std::move(load));
    progressed = true;
  }
  return progressed;
}

bool ChunkPipeline::update_on_device() {
  bool progressed = false;
  while (!fetched_.empty()) {
    Load load = take_front(fetched_);
    DeviceSlot& slot = slots_[static_cast<std::size_t>(load.slot)];
    const StateBlock& block = blocks_[static_cast<std::size_t>(load.chunk)];
    const auto items =
        array_at<kernels::UpdateItem>(slot.table.write(), Bytes(), block.segments.size());
    Launches launches = make_items(block, parameters_, step_->gradients, slot.memory.data(), items);
    number_pieces(device_kernels_, launches, items);
    update_stream_.wait(load.event);
    update_stream_.wait(step_->ready);
    const std::byte* const table = slot.table.publish(update_stream_);
    enqueue(device_kernels_, launches, reinterpret_cast<const kernels::UpdateItem*>(table),
            step_->device_scalars, update_stream_);
    load.event = update_stream_.record();
    slot.table.used_until(load.event);
    publish(load.chunk, Publisher::kUpdateStream, load.event);
    updated_.push_back(std::move(load));
    progressed = true;
  }
  return progressed;
}

bool ChunkPipeline::write_states_back() {
  bool progressed = false;
  while (!updated_.empty() && updated_.front().event.done() && out_.has_room()) {
    Load load = take_front(updated_);
    const std::span<std::byte> states = chunks_[static_cast<std::size_t>(load.chunk)].states;
    const Copy copy{states,
                    slots_[static_cast<std::size_t>(load.slot)].memory.first(states.size())};
    load.event = out_.send({&copy, 1});
    written_.push_back(std::move(load));
    progressed = true;
  }
  return progressed;
}

bool ChunkPipeline::retire_written() {
  bool progressed = false;
  while (!written_.empty() && written_.front().event.done()) {
    Load load = take_front(written_);
    finish(load);
    if (ready_at_ && timing_->streamed_elements > 0)
      timing_->stream_seconds = seconds_since_ready();
    progressed = true;
  }
  return progressed;
}

// ---- Host: gradients out, update, parameters in -------------------------------------------------

bool ChunkPipeline::fetch_gradients() {
  bool progressed = false;
  while (!waiting_for_host_.empty() && !free_stages_.empty() && step_->ready.done()) {
    Load& head = waiting_for_host_.front();
    Chunk& chunk = chunks_[static_cast<std::size_t>(head.chunk)];
    const StateBlock& block = blocks_[static_cast<std::size_t>(head.chunk)];
    const bool packed = block.segments.size() > kMostDirectItems;
    if (chunk.busy || (packed ? free_slots_.empty() : !out_.has_room())) break;
    Load load = take_front(waiting_for_host_);
    chunk.busy = true;
    load.stage = take_back(free_stages_);
    HostStage& stage = stages_[static_cast<std::size_t>(load.stage)];
    stage.prepare(block, parameters_, step_->gradients, chunk.states.data());
    if (packed) {
      gather(load);
      gathered_.push_back(std::move(load));
    } else {
      load.event = out_.send(stage.direct_inputs());
      staged_.push_back(std::move(load));
    }
    progressed = true;
  }
  return progressed;
}

void ChunkPipeline::gather(Load& load) {
  load.slot = take_back(free_slots_);
  DeviceSlot& slot = slots_[static_cast<std::size_t>(load.slot)];
  HostStage& stage = stages_[static_cast<std::size_t>(load.stage)];
  const auto items =
      array_at<kernels::MoveItem>(slot.table.write(), Bytes(), 2 * stage.num_items());
  const std::int64_t num_items = stage.fill_gather(slot.memory, items);
  const std::int64_t num_pieces =
      device_kernels_.number_pieces(items.first(static_cast<std::size_t>(num_items)));
  const std::byte* const table = slot.table.publish(update_stream_);
  device_kernels_.move(reinterpret_cast<const kernels::MoveItem*>(table), num_items, num_pieces,
                       update_stream_);
  load.event = update_stream_.record();
  slot.table.used_until(load.event);
}

bool ChunkPipeline::send_gathered() {
  bool progressed = false;
  while (!gathered_.empty() && gathered_.front().event.done() && out_.has_room()) {
    Load load = take_front(gathered_);
    HostStage& stage = stages_[static_cast<std::size_t>(load.stage)];
    load.event = out_.send(stage.packed_inputs(slots_[static_cast<std::size_t>(load.slot)].memory));
    staged_.push_back(std::move(load));
    progressed = true;
  }
  return progressed;
}

bool ChunkPipeline::update_on_host() {
  bool progressed = false;
  while (!staged_.empty() && staged_.front().event.done() && step_->host.known.done()) {
    Load load = take_front(staged_);
    if (step_->host.outcome->skipped != 0) {
      publish(load.chunk, Publisher::kNone, Event());
      finish(load);
    } else {
      HostStage& stage = stages_[static_cast<std::size_t>(load.stage)];
      load.job = stage.submit(*pool_, host_kernels_, step_->host, options_.host_update);
      computed_.push_back(std::move(load));
    }
    progressed = true;
  }
  return progressed;
}

bool ChunkPipeline::return_parameters() {
  bool progressed = false;
  while (!computed_.empty() && computed_.front().job->done() && in_.has_room()) {
    Load load = take_front(computed_);
    std::exchange(load.job, std::nullopt)->wait();  // throws what the update threw
    HostStage& stage = stages_[static_cast<std::size_t>(load.stage)];
    if (load.slot < 0) {
      load.event = in_.send(stage.direct_outputs());
      publish(load.chunk, Publisher::kInLane, load.event);
    } else {
      load.event =
          in_.send(stage.packed_outputs(slots_[static_cast<std::size_t>(load.slot)].memory));
      scatter(load);
      publish(load.chunk, Publisher::kUpdateStream, load.event);
    }
    returned_.push_back(std::move(load));
    progressed = true;
  }
  return progressed;
}

void ChunkPipeline::scatter(Load& load) {
  DeviceSlot& slot = slots_[static_cast<std::size_t>(load.slot)];
  HostStage& stage = stages_[static_cast<std::size_t>(load.stage)];
  const auto items = array_at<kernels::MoveItem>(slot.table.write(), Bytes(), stage.num_items());
  const std::int64_t num_items = stage.fill_scatter(slot.memory, items);
  const std::int64_t num_pieces = device_kernels_.number_pieces(items);
  update_stream_.wait(load.event);
  const std::byte* const table = slot.table.publish(update_stream_);
  device_kernels_.move(reinterpret_cast<const kernels::MoveItem*>(table), num_items, num_pieces,
                       update_stream_);
  load.event = update_stream_.record();
  slot.table.used_until(load.event);
}

/// The parameters leave from the stage, so it is free only once they have arrived.
bool ChunkPipeline::retire_returned() {
  bool progressed = false;
  while (!returned_.empty() && returned_.front().event.done()) {
    Load load = take_front(returned_);
    finish(load);
    if (ready_at_ && timing_->host_elements > 0) timing_->host_seconds = seconds_since_ready();
    progressed = true;
  }
  return progressed;
}

}  // namespace spillway::optimizer
