-- pods from: 17
-- The agent of sessions that users create.
alter table fleetline.tenants add column default_agent text;
