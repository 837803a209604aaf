"""Communication of a profile: calls, links, packets, groups, step times."""

from tb_plugin.formats.ascend.communication.document import MOST_BYTES, PER_BYTE, document_in
from tb_plugin.formats.ascend.communication.job import Job, job_of
from tb_plugin.formats.ascend.communication.steps import kernel_steps

__all__ = ["MOST_BYTES", "PER_BYTE", "Job", "document_in", "job_of", "kernel_steps"]
