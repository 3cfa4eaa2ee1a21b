"""Jobs that go on when the command that started them has ended: a launcher in a process of its own.

launch_order        what such a process is told, and what it reports
background_launch   starts it, and hears that the job has begun, or why not
launch_process      that process
submission_order    the order for a submission folder
local_launch        a job with steps on this machine alone
"""
