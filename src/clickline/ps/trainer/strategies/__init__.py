"""The strategies: what a trainer does between computing a gradient and having new parameters.

async_      pull ahead, compute, send; nobody waits, and at most `prefetch` + `send_queue` batches are under way
half_async  gradients of several batches are merged, sent, and waited for
sync        every step waits until the servers have merged all trainers' gradients
geo         local tables and parameters, differences exchanged now and then

They are siblings on base.TrainerStrategy and do not know each other; strategy_table.STRATEGIES has them by name.
"""
