-- What an agent behind a URL shares a limit with, if it does not have one of its own: the key of a downstream that the
-- operator's code names. Pods of the release before do not read it, and push each agent by itself.
alter table fleetline.agents add column downstream text check (octet_length(downstream) <= 128);
