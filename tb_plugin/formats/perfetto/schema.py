"""Protobuf classes for part of Perfetto's public schema.

The classes are built at run time, so no code is generated. The protobuf runtime skips undeclared fields without
decoding them. Texts are bytes, because they may be invalid UTF-8. Annotations are bytes as well, because most of
them repeat, and interned.py decodes each distinct annotation once.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_TYPES = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "int32": _TYPES.TYPE_INT32, "uint32": _TYPES.TYPE_UINT32, "int64": _TYPES.TYPE_INT64, "uint64": _TYPES.TYPE_UINT64,
    "bool": _TYPES.TYPE_BOOL, "double": _TYPES.TYPE_DOUBLE, "fixed64": _TYPES.TYPE_FIXED64, "bytes": _TYPES.TYPE_BYTES,
}  # fmt: skip

_SCHEMA = {
    "Trace": "1 packet TracePacket*",
    "TracePacket": """
        6 clock_snapshot ClockSnapshot; 8 timestamp uint64; 10 sequence uint32; 11 track_event TrackEvent
        12 interned_data InternedData; 13 sequence_flags uint32; 41 state_cleared bool; 42 previous_dropped bool
        50 compressed_packets bytes; 52 gpu_counter_event GpuCounterEvent; 53 render_stage RenderStage
        58 clock_id uint32; 59 defaults Defaults; 60 track_descriptor TrackDescriptor""",
    "Clock": "1 clock_id uint32; 2 timestamp uint64; 3 is_incremental bool; 4 unit_ns uint64",
    "ClockSnapshot": "1 clocks Clock*; 2 primary_trace_clock uint32",
    "Defaults": "11 track_event TrackEvent; 58 clock_id uint32",
    "TrackEvent": """
        1 delta_us int64; 16 absolute_us int64; 3 category_iids uint64*; 22 categories bytes*; 4 annotations bytes*
        6 legacy_event LegacyEvent; 9 type uint32; 10 name_iid uint64; 23 name bytes; 11 track_uuid uint64
        30 counter_value int64; 44 double_counter_value double; 31 extra_counter_track_uuids uint64*
        12 extra_counter_values int64*; 45 extra_double_counter_track_uuids uint64*; 46 extra_double_counter_values double*
        36 old_flow_ids uint64*; 42 old_ending_flow_ids uint64*; 47 flow_ids fixed64*; 48 ending_flow_ids fixed64*
        3000 launched bytes""",
    "LegacyEvent": """
        1 name_iid uint64; 2 phase int32; 3 duration_us int64; 6 unscoped_id uint64; 7 id_scope bytes; 8 bind_id uint64
        10 local_id uint64; 11 global_id uint64; 12 use_async_tts bool; 18 pid_override int32; 19 tid_override int32""",
    "Launched": "1 event_ids uint64*",
    "Annotation": """
        1 name_iid uint64; 10 name bytes; 2 bool_value bool; 3 uint_value uint64; 4 int_value int64; 5 double_value double
        6 string_value bytes; 17 string_value_iid uint64; 7 pointer_value uint64; 8 nested_value Nested
        9 legacy_json_value bytes; 11 dict_entries Annotation*; 12 array_values Annotation*""",
    "Nested": """
        1 type uint32; 2 dict_keys bytes*; 3 dict_values Nested*; 4 array_values Nested*; 5 int_value int64
        6 double_value double; 7 bool_value bool; 8 string_value bytes""",
    "Named": "1 iid uint64; 2 name bytes",
    "InternedData": """
        1 event_categories Named*; 2 event_names Named*; 3 annotation_names Named*; 29 annotation_strings Named*
        24 gpu_specifications Named*; 47 gpu_counter_descriptors GpuCounters*; 1000 kernels Kernel*
        1001 launch_arg_names Named*""",
    "Kernel": "1 iid uint64; 3 name bytes",
    "GpuCounters": "1 iid uint64; 2 descriptor CounterDescriptor; 3 gpu_id int32",
    "CounterDescriptor": "1 specs CounterSpec*",
    "CounterSpec": "1 counter_id uint32; 2 name bytes",
    "GpuCounterEvent": "1 descriptor CounterDescriptor; 2 counters GpuCounter*; 3 gpu_id int32; 4 descriptor_iid uint64",
    "GpuCounter": "1 counter_id uint32; 2 int_value int64; 3 double_value double",
    "RenderStage": """
        1 event_id uint64; 2 duration uint64; 11 gpu_id int32; 13 queue_iid uint64; 14 stage_iid uint64
        6 extra_data bytes*; 18 waited_event_ids uint64*; 19 kernel_iid uint64; 20 name_iid uint64; 21 launch bytes""",
    "Extra": "1 name bytes; 2 value bytes",
    "Launch": "1 grid Size; 2 block Size; 3 args LaunchArg*",
    "Size": "1 x uint32; 2 y uint32; 3 z uint32",
    "LaunchArg": "1 name_iid uint64; 4 uint_value uint64",
    "TrackDescriptor": """
        1 uuid uint64; 2 name bytes; 10 static_name bytes; 13 atrace_name bytes; 5 parent_uuid uint64
        3 process Process; 4 thread Thread; 8 counter Counter""",
    "Process": "1 pid int32; 6 name bytes",
    "Thread": "1 pid int32; 2 tid int64; 5 name bytes",
    "Counter": "1 type uint32; 3 unit uint32; 6 unit_name bytes; 4 unit_multiplier int64; 5 is_incremental bool",
}  # fmt: skip
"""Fields as "number name type" (* = list), by the numbers and types of Perfetto."""

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4  # types of track events

# For PyTorch, track events stay undecoded, because most of their bytes repeat (torch.py).
_SCHEMA["TorchTrace"] = "1 packet TorchPacket*"
_SCHEMA["TorchPacket"] = _SCHEMA["TracePacket"].replace("11 track_event TrackEvent", "11 track_event bytes")
_SCHEMA["AnnotationList"] = "4 annotations bytes*"

_PACKAGE = "torch_trace.perfetto"


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="torch_trace/perfetto.proto", package=_PACKAGE, syntax="proto2")
    for name, text in _SCHEMA.items():
        message = file.message_type.add(name=name)
        for line in text.replace("\n", ";").split(";"):
            if not (words := line.split()):
                continue
            number, field, kind = words
            label = _TYPES.LABEL_REPEATED if kind.endswith("*") else _TYPES.LABEL_OPTIONAL
            kind = kind.removesuffix("*")
            added = message.field.add(name=field, number=int(number), label=label)
            if kind in _SCALARS:
                added.type = _SCALARS[kind]
            else:
                added.type, added.type_name = _TYPES.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
    return file


_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(_file())


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


Trace: Any = _message("Trace")
TracePacket: Any = _message("TracePacket")
TorchTrace: Any = _message("TorchTrace")
TorchPacket: Any = _message("TorchPacket")
TrackEvent: Any = _message("TrackEvent")
AnnotationList: Any = _message("AnnotationList")
Annotation: Any = _message("Annotation")
Extra: Any = _message("Extra")
Launch: Any = _message("Launch")
Launched: Any = _message("Launched")
