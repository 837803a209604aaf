// Queries to begin with.
export const EXAMPLES: readonly { title: string; query: string }[] = [
  {
    title: 'Operators by CPU self time',
    query: `select name, count(*) as calls, sum(host_self_ns) as self_ns, sum(device_self_ns) as device_ns
from operators
group by name
order by self_ns desc`,
  },
  {
    title: 'Kernels by time',
    query: `select label, class, count(*) as calls, sum(dur_ns) as total_ns, avg(dur_ns) as mean_ns
from kernels
group by label, class
order by total_ns desc`,
  },
  {
    title: 'Kernel time by step and class',
    query: `select step, class, sum(dur_ns) as total_ns
from kernels
group by step, class
order by step, total_ns desc`,
  },
  {
    title: 'Lines of code by device time',
    query: `select code_line, sum(device_self_ns) as device_ns, sum(host_self_ns) as self_ns
from operators
group by code_line
order by device_ns desc, self_ns desc`,
  },
  {
    title: 'Kernels shorter than their launch',
    query: `select k.label, count(*) as calls, sum(k.dur_ns) as kernel_ns, sum(l.call_ns) as launch_ns
from kernels k join launches l on k.event = l.event
where k.dur_ns < l.call_ns
group by k.label
order by launch_ns desc`,
  },
  {
    title: 'Critical path by kind',
    query: `select kind, sum(dur_ns) as total_ns, count(*) as pieces
from critical_path
group by kind
order by total_ns desc`,
  },
  {
    title: 'Longest gaps between kernels of a stream',
    query: `with work as (
  select event, label as name, device, stream, start_ns, dur_ns,
    start_ns - max(start_ns + dur_ns) over (partition by device, stream order by start_ns
      rows between unbounded preceding and 1 preceding) as gap_ns
  from kernels
)
select event, name, stream, gap_ns, start_ns, dur_ns
from work
where gap_ns > 0
order by gap_ns desc
limit 100`,
  },
  {
    title: 'Copies by direction, with bandwidth',
    query: `select direction, kind, count(*) as calls, sum(bytes) as total_bytes, sum(dur_ns) as total_ns,
  sum(bytes) / sum(dur_ns) as gb_per_s
from copies
group by direction, kind
order by total_ns desc`,
  },
  {
    title: 'Runtime calls while the device idles',
    query: `select event, name, device_idle_ns, dur_ns, start_ns, operator, code_line
from runtime_calls
where device_idle_ns > 0
order by device_idle_ns desc
limit 100`,
  },
  {
    title: 'Input shapes of matrix products',
    query: `select name, input_shapes, count(*) as calls, sum(device_self_ns) as device_ns, sum(host_self_ns) as self_ns
from operators
where name in ('aten::mm', 'aten::addmm', 'aten::bmm', 'aten::baddbmm')
group by name, input_shapes
order by device_ns desc, calls desc`,
  },
  {
    title: 'Steps against their median',
    query: `select step, dur_ns, dur_ns - median(dur_ns) over () as above_median_ns, kernel_ns, dataloader_ns, cpu_ns
from steps
order by dur_ns desc`,
  },
]
