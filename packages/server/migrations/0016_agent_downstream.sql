-- What an agent behind a URL shares a limit with, if it does not have one of its own: the key of a downstream that the
-- operator's code has opened. Pods of the release before do not read it: they call every agent without a limit.
alter table fleetline.agents add column downstream text check (octet_length(downstream) <= 128);
