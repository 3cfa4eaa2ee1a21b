"""The messages between trainers, parameter servers and the coordinator: types that both sides share.

framing           how a message lies in bytes
refusals          the codes by which a process refuses a request
member_messages   what a process sends to the coordinator about its membership
work_messages     what a trainer sends to the coordinator about its work
file_messages     how files of checkpoints are fetched where no directory is shared
pserver_messages  what trainers and the coordinator send to a parameter server
protocol_page     docs/reference/protocol.md, made from these types
"""
