-- pods from: 17
-- What an administrator has set for an agent behind a URL; what is missing has its default.
alter table fleetline.agents add column settings jsonb not null default '{}';
